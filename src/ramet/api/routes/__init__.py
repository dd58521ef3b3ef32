"""The routes of the HTTP interface, a module for each subject. They translate; the verbs are in plane."""
