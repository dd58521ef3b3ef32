"""What runs on the host of a data directory: `ramet up`, `serve`, `worker`, `down`, `doctor` and `backup`."""
