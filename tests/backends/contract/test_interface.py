"""The interface itself: small enough for another backend."""

import inspect

import pytest

from ramet.backends.interface.admission import Admission
from ramet.backends.interface.archive import Archive
from ramet.backends.interface.backend import Backend
from ramet.backends.interface.copies import Copies
from ramet.backends.interface.endpoints import Endpoints
from ramet.backends.interface.followers import Followers
from ramet.backends.interface.host import Host
from ramet.backends.interface.insight import Insight
from ramet.backends.interface.logins import Logins
from ramet.backends.interface.parameters import Parameters
from ramet.backends.interface.poolers import Poolers
from ramet.backends.interface.replacements import Replacements
from ramet.backends.interface.replicas import Replicas
from ramet.backends.interface.replication import Replication
from ramet.backends.interface.restore import Restore
from ramet.backends.interface.servers import Servers
from ramet.backends.interface.sources import Sources
from ramet.backends.interface.subscriptions import Subscriptions
from ramet.backends.interface.upgrades import Upgrades

PROTOCOLS = (
    Servers,
    Restore,
    Replicas,
    Poolers,
    Archive,
    Host,
    Sources,
    Replication,
    Insight,
    Parameters,
    Upgrades,
    Followers,
    Subscriptions,
    Replacements,
    Endpoints,
    Logins,
    Admission,
    Copies,
)
MOST_METHODS = 15


def methods(protocol: type) -> list[str]:
    return [name for name, member in vars(protocol).items() if inspect.isfunction(member) and name[0] != "_"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_has_at_most_15_methods_each_with_a_docstring(protocol: type) -> None:
    found = methods(protocol)
    assert 0 < len(found) <= MOST_METHODS
    assert [name for name in found if not inspect.getdoc(vars(protocol)[name])] == []


def test_a_backend_has_these_protocols_and_nothing_else() -> None:
    parts = {name: member for name, member in vars(Backend).items() if isinstance(member, property)}
    found = {name: member.fget.__annotations__["return"] for name, member in parts.items() if name != "authority"}
    assert found == dict(
        zip(
            (
                "servers",
                "restore",
                "replicas",
                "poolers",
                "archive",
                "host",
                "sources",
                "replication",
                "insight",
                "parameters",
                "upgrades",
                "followers",
                "subscriptions",
                "replacements",
                "endpoints",
                "logins",
                "admission",
                "copies",
            ),
            PROTOCOLS,
            strict=True,
        )
    )
