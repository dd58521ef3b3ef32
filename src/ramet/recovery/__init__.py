"""Survive the loss of the machine: a catalogue that travels with the off-host archive, and recovery from both."""
