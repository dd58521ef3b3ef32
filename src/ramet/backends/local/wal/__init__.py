"""Write-ahead log as files: segments, where they are, what they hold, and whether they are intact."""
