"""A program of the build that waits for the network without end is ended, and its message says what it needs."""

import pytest

from harness.kubernetes.network import run_over_network

NEEDED = "the packages of another machine"


def test_a_program_that_waits_without_end_is_ended_with_what_it_needs() -> None:
    with pytest.raises(RuntimeError, match=f"done nothing for 0.2 s: it needs the network, for {NEEDED}"):
        run_over_network(NEEDED, "sh", "-c", "sleep 600", idle_seconds=0.2)


def test_a_program_that_ends_gives_its_output_or_its_errors() -> None:
    assert run_over_network(NEEDED, "echo", "found") == "found\n"
    with pytest.raises(RuntimeError, match=r"ended with 3:\nno such host"):
        run_over_network(NEEDED, "sh", "-c", "echo no such host >&2; exit 3")
