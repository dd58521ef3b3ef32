"""What all commands share: options, output, waiting, exit codes."""
