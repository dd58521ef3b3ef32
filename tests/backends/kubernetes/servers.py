"""Servers that the tests of this backend are about."""

from ramet.backends.interface.values import Server
from ramet.model.environment import Environment
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from ramet.model.upstream import FollowMethod, Upstream

SHARED = Server(
    service_id="abcdefghij",
    service_type=ServiceType.POSTGRES,
    environment=Environment.DEV,
    size=Size(),
    host="ramet-abcdefghij.services.svc",
    port=15432,
    pg_major=18,
    verifier=Secret("not in any manifest"),
)

UPSTREAM = Upstream(
    method=FollowMethod.PHYSICAL,
    host="machine.test",
    port=15432,
    database="tsdb",
    user="pg_ramet_mover",
    sslmode="verify-full",
    system_identifier="7712037298637759942",
    bootstrap_role="ramet",
    root_certificate="-----BEGIN CERTIFICATE-----",
)


def report(*, next_xid: int = 800, marked: bool = False, follows: bool = False, unarchived: str = "") -> str:
    """Return what the program of `reports.py` prints."""
    facts = f"{next_xid}|{0x3000000}|{'t' if marked else 'f'}|{'t' if follows else 'f'}|{unarchived}"
    return f"{facts}\n1|2|0\n{'|'.join('123456789')}\n\n2500000\n1048576\n4096\n"
