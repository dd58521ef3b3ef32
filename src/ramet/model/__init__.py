"""The words of Ramet as pure values and functions: no I/O, and the time is an argument."""
