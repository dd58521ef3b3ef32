"""Throw-away forks, for the run of a command or of a test. Over the client and the command line, and removable."""
