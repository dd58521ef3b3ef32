"""The changes that a service goes through: a file each, which opens with its steps and their undos."""
