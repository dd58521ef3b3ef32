"""The relay hides channel binding from its clients, in whatever pieces the offer arrives."""

import socket
import struct

import pytest

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.local.sources import sources
from ramet.backends.local.sources.relay import _Authentication
from ramet.errors import Invalid
from ramet.model.passwords import Secret

PLUS, PLAIN = b"SCRAM-SHA-256-PLUS\0", b"SCRAM-SHA-256\0"


def offer(*mechanisms: bytes) -> bytes:
    body = struct.pack("!i", 10) + b"".join(mechanisms) + b"\0"
    return b"R" + struct.pack("!i", len(body) + 4) + body


@pytest.mark.parametrize("size", [1, 4, 7, 1000])
def test_an_offer_of_channel_binding_arrives_without_it(size: int) -> None:
    sent, reply = offer(PLUS, PLAIN) + b"rest", _Authentication()
    passed = b"".join(reply.passed(sent[at : at + size]) for at in range(0, len(sent), size))
    assert passed == offer(PLAIN) + b"rest"


@pytest.mark.parametrize(
    "sent",
    [offer(PLAIN), b"R\0\0\0\x08\0\0\0\0", b"E\0\0\0\x05\0", b"R\0\0\0\x0c\0\0\0\x05salt"],
    ids=["no binding", "trusted", "error", "md5"],
)
def test_other_answers_pass_unchanged(sent: bytes) -> None:
    assert _Authentication().passed(sent) == sent


def test_a_source_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_EXAMINE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = SourceAddress("127.0.0.1", silent.getsockname()[1], "shop", "app", "disable")
        with pytest.raises(Invalid, match=r"could not be examined: it did not answer within 0\.2 seconds"):
            sources.examine(address, Secret("x"))
