"""The copy that another Ramet makes of a service which moves there: who may stream, and where the WAL ends."""

import time
from dataclasses import replace

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import names, stopped
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.configuration import Phase
from ramet.backends.kubernetes.traits import CopyRight, noted_traits
from ramet.backends.local.sql import mover
from ramet.backends.local.sql.connections import value
from ramet.backends.local.sql.mover import MOVER_ROLE
from ramet.errors import Failed, Unavailable
from ramet.model.passwords import Secret

_ADMIT_SECONDS, _LOOK_SECONDS = 60.0, 0.1
_ADMITS = "SELECT EXISTS (SELECT FROM pg_hba_file_rules WHERE %s = ANY(user_name) AND error IS NULL)"


def admit(place: Place, server: Server, verifier: Secret) -> str:
    """Create the role by which a copy streams, and let it in; return its name when that is in force."""
    place.check_runs(server)
    with place.connect(server) as connection, connection.transaction():
        mover.let_in(connection, verifier)
    _note(place, server, CopyRight.ADMITTED)
    deadline = time.monotonic() + _ADMIT_SECONDS
    with place.connect(server) as connection:
        while not value(connection, _ADMITS, MOVER_ROLE):
            if time.monotonic() > deadline:
                raise Unavailable("RULE_LATE", f"pg_hba.conf of service {server.service_id} does not change")
            time.sleep(_LOOK_SECONDS)
    return MOVER_ROLE


def refuse(place: Place, server: Server) -> None:
    """Let no copy stream any more, and remove its role: at once, or when a stopped server has started again."""
    cluster = place.cluster_of(server.service_id)
    if cluster is None or noted_traits(cluster.metadata.annotations).copy is CopyRight.NONE:
        return
    _note(place, server, CopyRight.REFUSED)
    if not cluster.is_asleep:
        clear(place, server)


def clear(place: Place, server: Server) -> None:
    """Remove the role of a copy from a serving server, if that may not stream any more."""
    if place.traits_of(server.service_id).copy is CopyRight.REFUSED:
        with place.connect(server) as connection, connection.transaction():
            mover.remove(connection)
        _note(place, server, CopyRight.NONE)


def end_lsn(place: Place, server: Server) -> str | None:
    """Return where the WAL of a stopped server ends, by its control file; None when it did not stop in order."""
    control = stopped.read_control(place, server, server.service_id)
    return control.checkpoint_lsn if control.is_clean else None


def _note(place: Place, server: Server, copy: CopyRight) -> None:
    cluster = place.cluster_of(server.service_id)
    if cluster is None:
        raise Failed("VOLUME_LOST", f"The Cluster of service {server.service_id} is gone")
    noted = cluster.metadata.annotations
    place.apply(
        server,
        Phase.OPEN,
        first=names.FIRST_ANNOTATION in noted,
        asleep=cluster.is_asleep,
        traits=replace(noted_traits(noted), copy=copy),
    )
