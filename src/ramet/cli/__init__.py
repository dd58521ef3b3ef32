"""The command line: commands that use the client, and the processes of one host."""
