"""What an import loads again, after a crash between its end and the record of that."""

from ramet.backends.interface.sources import SourceAddress, SourceFacts
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.sources.copying import Import, directory_of
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import DATABASE, value
from tests.backends.local.forks import make_backend, paths_of, run
from tests.backends.local.hosts import new_server
from tests.sources import OWNER, PASSWORD, Source

SECONDS = 120.0


def fetched(backend: LocalBackend, server: Server, source: Source) -> SourceFacts:
    """Fetch a source, and start the server for it; return what is known of the source."""
    address = SourceAddress("localhost", source.port, "shop", OWNER, "require")
    facts, _ = backend.sources.examine(address, PASSWORD, server.service_type)
    backend.servers.initialize(server)
    backend.sources.keep(server, address, backend.sources.seal(PASSWORD))
    assert backend.sources.fetch(server, address, facts, SECONDS).facts is not None
    run(backend, server)
    backend.servers.secure(server, is_new=True, neutralize=False)
    return facts


def test_what_was_loaded_when_the_worker_was_killed_is_loaded_again_and_then_the_dump_is_removed(
    plain_source: Source,
) -> None:
    plain_source.run("CREATE TABLE words AS SELECT generate_series(1, 1000) AS n")
    with make_backend("copy") as backend:
        server = new_server(backend.instances)
        facts = fetched(backend, server, plain_source)
        Import(backend.instances, server).load(facts, owners=True)  # as a worker did that was killed right after it
        loaded = backend.sources.load(server, facts, owners=True, timeout_seconds=SECONDS)
        assert loaded.facts is not None
        paths = paths_of(backend, server)
        assert not (directory_of(paths) / "dump").exists()
        with connections.connect(paths, DATABASE) as connection:
            assert value(connection, "SELECT count(*) FROM public.words") == 1000
