"""Measurements of Ramet beside its peers, in one run, on the same data: `script/bench NAME [--quick] [--json]`."""
