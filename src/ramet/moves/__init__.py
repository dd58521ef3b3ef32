"""Moving a service to another Ramet: the copy there follows it, takes its place, and the service stays here, paused."""
