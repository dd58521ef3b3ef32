"""The endpoints of services that may sleep: a process of their own owns the ports, and passes clients on."""
