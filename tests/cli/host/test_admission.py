"""Which connection is closed if there are too many, and which addresses count as one host."""

from dataclasses import dataclass, field

import pytest

from ramet.cli.host.admission import Admission, network_of


@dataclass(eq=False)
class Guest:
    closed: list["Guest"] = field(default_factory=list)

    def give_way(self) -> None:
        self.closed.append(self)


def _enter(admission: Admission, count: int, address: str) -> list[Guest]:
    made = [Guest() for _ in range(count)]
    assert all(admission.enter(guest, address) for guest in made)
    return made


def test_the_connection_that_has_waited_longest_is_closed() -> None:
    admission = Admission(2, 10)
    first, second = _enter(admission, 2, "10.0.0.1")
    admission.answer(first)
    admission.wait(first)
    _enter(admission, 1, "10.0.0.2")
    assert (bool(first.closed), bool(second.closed)) == (False, True)


def test_connections_of_one_address_do_not_displace_others() -> None:
    admission = Admission(100, 3)
    others = _enter(admission, 2, "10.0.0.2")
    crowd = _enter(admission, 50, "10.0.0.1")
    assert not any(guest.closed for guest in others)
    assert [bool(guest.closed) for guest in crowd] == [True] * 47 + [False] * 3


def test_connections_being_answered_are_not_closed_and_no_other_is_accepted() -> None:
    admission = Admission(3, 1)
    busy = []
    for _ in range(3):
        busy += _enter(admission, 1, "10.0.0.1")
        admission.answer(busy[-1])
    assert not admission.enter(Guest(), "10.0.0.2")
    admission.leave(busy[0])
    assert admission.enter(Guest(), "10.0.0.2")
    assert not any(guest.closed for guest in busy)


def test_closed_connections_are_forgotten() -> None:
    admission = Admission(5, 5)
    for guest in _enter(admission, 5, "10.0.0.1"):
        admission.leave(guest)
        admission.leave(guest)
        admission.wait(guest)
    _enter(admission, 5, "10.0.0.1")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:0:7::5", "2001:db8:0:7::/64"),
        ("2001:db8:0:7:ffff::1", "2001:db8:0:7::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_all_ipv6_addresses_of_a_network_are_one_host(address: str, network: str) -> None:
    assert network_of(address) == network
