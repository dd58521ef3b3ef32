"""A program of the build that waits for the network without end is ended, and its message says what it needs."""

import pytest

from harness.kubernetes.network import NotAvailable, run_over_network

NEEDED = "the packages of another machine"


def test_a_program_that_waits_without_end_is_ended_with_what_it_needs() -> None:
    with pytest.raises(NotAvailable, match=f"done nothing for 0.2 s: it needs the network, for {NEEDED}"):
        run_over_network(NEEDED, "sh", "-c", "sleep 600", idle_seconds=0.2)


def test_a_program_that_ends_gives_its_output_or_its_errors() -> None:
    assert run_over_network(NEEDED, "echo", "found") == "found\n"
    with pytest.raises(RuntimeError, match=r"ended with 3:\nundefined: name") as failed:
        run_over_network(NEEDED, "sh", "-c", "echo undefined: name >&2; exit 3")
    assert not isinstance(failed.value, NotAvailable)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("", ("ca-certificates", "a\nno such host")),
        ("options.go:3: undefined: timeout", ()),
        ("E: Unable to locate package golang-1.99", ()),
    ],
)
def test_a_program_that_fails_of_itself_is_no_sign_of_the_network(error: str, words: tuple[str, ...]) -> None:
    with pytest.raises(RuntimeError, match="ended with 3") as failed:
        run_over_network(NEEDED, "sh", "-c", f'echo "{error}" >&2; exit 3', *words)
    assert not isinstance(failed.value, NotAvailable)


@pytest.mark.parametrize(
    "error",
    [
        "dial tcp: lookup proxy.golang.org on 127.0.0.1:53: no such host",
        "dial tcp 192.0.2.1:443: i/o timeout",
        "net/http: TLS handshake timeout",
        "net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
        "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        "Temporary failure resolving 'deb.debian.org'",
        "dns error: failed to lookup address information",
        "reading https://proxy.golang.org/k8s.io/api: 502 Bad Gateway",
        "compile: signal: killed",
    ],
)
def test_a_program_that_reaches_no_other_machine_says_what_it_needs(error: str) -> None:
    with pytest.raises(NotAvailable, match=rf"(?s)ended with 3:.*It needs the network, for {NEEDED}"):
        run_over_network(NEEDED, "sh", "-c", f'echo "{error}" >&2; exit 3')
