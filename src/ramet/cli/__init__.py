"""The command line: words, tables, progress and exit codes over the client, and the processes of one host."""
