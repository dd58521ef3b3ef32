"""`ramet mcp`: tools for agents, by the Model Context Protocol. Over the client and the command line, and removable."""
