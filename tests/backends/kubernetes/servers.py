"""Servers that the tests of this backend are about."""

from ramet.backends.interface.values import Server
from ramet.model.environment import Environment
from ramet.model.passwords import Secret
from ramet.model.service import ServiceType
from ramet.model.size import Size

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
