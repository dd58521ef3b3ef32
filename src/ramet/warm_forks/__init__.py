"""Forks that are made in advance, so that a request for one is answered with a READY one; over the verbs, removable."""
