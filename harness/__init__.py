"""Runs Ramet for the tests, the benchmarks, the proofs and the demo. Users do not get it."""
