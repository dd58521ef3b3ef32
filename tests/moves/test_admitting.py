"""What lets another Ramet stream from a server is added to its configuration, and taken back without a trace."""

import pytest

from ramet.backends.local.server import copies
from ramet.backends.local.server.access import pg_hba_conf
from ramet.backends.local.server.configuration import Features, Phase


@pytest.mark.parametrize("has_tls", [True, False])
@pytest.mark.parametrize("phase", [Phase.CLOSED, Phase.OPEN])
def test_a_copy_is_admitted_before_replication_is_refused_and_by_tls_where_there_is_any(
    phase: Phase, has_tls: bool
) -> None:
    before = pg_hba_conf(Features(has_tls), phase)
    lines = copies.admitting(copies.admitting(before, has_tls), has_tls).splitlines()
    added = [line for line in lines if line not in before.splitlines()]
    kind = "hostssl" if has_tls else "host"
    assert all(line.startswith(f"{kind} replication pg_ramet_mover ") for line in added)
    assert len(added) == (1 if has_tls else 2)
    assert lines.index(added[-1]) < lines.index("host replication all all reject")
    assert copies.refusing("".join(f"{line}\n" for line in lines)) == before


def test_wal_is_kept_for_a_copy_as_long_as_it_is_admitted() -> None:
    before = "max_connections = '100'\n"
    assert copies.keeping_wal(copies.keeping_wal(before, 64), 4096) == f"{before}wal_keep_size = '4096MB'\n"
    assert copies.keeping_no_wal(copies.keeping_wal(before, 64)) == before
