"""A data root for tests of the local backend, with real servers, of which nothing is left at the end."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.host.certificates import open_authority
from ramet.backends.local.host.cgroups import open_limits
from ramet.backends.local.host.paths import ServicePaths, layout_of
from ramet.backends.local.host.system_user import server_account
from ramet.backends.local.server.config_files import ConfigFiles
from ramet.backends.local.server.instances import Instances
from ramet.ids import new_id
from ramet.model.environment import Environment
from ramet.model.passwords import Secret, new_password, scram_verifier
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from tests.servers import installations


@contextmanager
def data_root() -> Iterator[Path]:
    """Make a directory that the servers' account can reach, unlike pytest's own."""
    root = Path(tempfile.mkdtemp(prefix="ramet-test-"))
    root.chmod(0o711)
    try:
        yield root
    finally:
        shutil.rmtree(root)


@contextmanager
def make_servers(pool: Path | None = None) -> Iterator[Instances]:
    """Yield the servers of a fresh data root; whatever runs at the end is killed."""
    with data_root() as root:
        instances = Instances(
            ConfigFiles(layout_of(root, pool or root), server_account(), installations(), temp_file_mbs=64),
            authority=open_authority(root / "secrets"),
            limits=open_limits(root.name),
        )
        try:
            yield instances
        finally:
            found = instances.layout.services.iterdir() if instances.layout.services.exists() else ()
            with ExitStack() as ends:  # what cannot be removed keeps nothing else running
                for directory in found:
                    ends.callback(instances.remove, directory.name, 10)
            shutil.rmtree(instances.layout.sockets, ignore_errors=True)


def new_server(instances: Instances, password: Secret | None = None, **changes: object) -> Server:
    """Return a small PostgreSQL service that nothing exists of yet."""
    server = Server(
        service_id=new_id(),
        service_type=ServiceType.POSTGRES,
        environment=Environment.DEV,
        size=Size(),
        host="localhost",
        port=free_port(),
        pg_major=instances.installations.default.major,
        verifier=scram_verifier(password or new_password()),
    )
    return replace(server, **changes)  # type: ignore[arg-type]


def boot(instances: Instances, server: Server) -> None:
    """Make an empty cluster and start it, closed to clients."""
    instances.make_directories(server)
    instances.initialize(server)
    restart(instances, server)


def restart(instances: Instances, server: Server) -> None:
    """Start a server, and wait until it is ready."""
    instances.start(server)
    eventually(lambda: instances.await_ready(server, 0.5).ready)


def elsewhere(paths: ServicePaths, directory: Path) -> ServicePaths:
    """Return where another process reaches a server that is not on its host: by a socket and files of its own."""
    (directory / "data").mkdir(parents=True)
    (socket,) = (one for one in paths.sockets.iterdir() if one.is_socket())
    (directory / ".s.PGSQL.5432").symlink_to(socket)
    (directory / "data/PG_VERSION").write_text((paths.data / "PG_VERSION").read_text())
    (directory / "data/postmaster.pid").write_text("\n\n\n5432\n")
    return ServicePaths(directory, directory)


def connect(server: Server, password: Secret | str, **changes: str) -> psycopg.Connection[tuple[object, ...]]:
    """Connect as a client would: over TCP, with TLS where there is any, as the admin."""
    parameters = {
        "host": "localhost",
        "port": str(server.port),
        "user": "tsdbadmin",
        "dbname": "tsdb",
        "password": password if isinstance(password, str) else password.reveal(),
        "sslmode": "require",
        "connect_timeout": "120",
    }
    return psycopg.connect(make_conninfo("", **parameters | changes), autocommit=True)
