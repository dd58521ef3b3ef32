"""How soon Ramet repeats work on a service that nobody asked for, by how long it took the last time."""

from datetime import timedelta

# At most 1/20 of the time, or 5 %, is spent on such work: a clone reads all extents of a file, and beside a busy server
# it takes I/O and locks that the server needs.
_REST_FOR_EACH_SECOND = 20
_LONGEST = timedelta(days=1)  # the time of a preparation contains the time for which Ramet did not run
USUAL_SECONDS = 1.0


def rest_after(seconds: float) -> timedelta:
    """Return how long work that took so many seconds is not repeated; what takes as long as usual is not delayed."""
    if seconds <= USUAL_SECONDS:
        return timedelta(0)
    return min(timedelta(seconds=seconds * _REST_FOR_EACH_SECOND), _LONGEST)
