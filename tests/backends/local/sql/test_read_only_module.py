"""The module that makes sessions read-only: when a service gets it, and services where it cannot be loaded."""

import _sqlite3
from pathlib import Path

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.local.server import read_only_module
from ramet.backends.local.server.configuration import Phase
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.read_only_module import Modules
from ramet.model.passwords import new_password
from tests.backends.local.hosts import boot, new_server
from tests.backends.local.sql.tenants import OFF, Tenant
from tests.servers import installations

BUILT = [one.major for one in installations().found if read_only_module.library_of(one.major).exists()]
_FAILING = """
#include "postgres.h"
#include "fmgr.h"
PG_MODULE_MAGIC;
PGDLLEXPORT void _PG_init(void);
void _PG_init(void) { ereport(ERROR, (errcode(ERRCODE_%s), errmsg("not now"))); }
"""


if BUILT:  # which takes a C compiler

    @pytest.mark.parametrize("major", BUILT)
    def test_a_running_service_gets_the_module_when_it_is_renewed(instances: Instances, major: int) -> None:
        password = new_password()
        server = new_server(instances, password, pg_major=major)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(read_only_module, "library_of", lambda major: instances.layout.services / "none.so")
            boot(instances, server)
            instances.secure(server, is_new=True, neutralize=False)
            instances.open(server)
        tenant = Tenant(instances, server, password)
        options = "-c tsdb_admin.read_only_connection=true"
        tenant.run(OFF, "CREATE TABLE t (id int)", options=options)
        instances.renew_access(server)

        def is_strict() -> bool:
            try:
                tenant.run(OFF, options=options)
            except psycopg.errors.ReadOnlySqlTransaction:
                return True
            return False

        eventually(is_strict)
        instances.remove(server.service_id, 10)

    @pytest.mark.parametrize("error", ["QUERY_CANCELED", "OUT_OF_MEMORY", "LOCK_NOT_AVAILABLE", "IO_ERROR"])
    def test_an_error_that_another_service_may_not_have_takes_the_module_from_none(
        instances: Instances, tmp_path: Path, error: str
    ) -> None:
        server = new_server(instances, pg_major=BUILT[0])
        source, library = tmp_path / "failing.c", tmp_path / "failing.so"
        source.write_text(_FAILING % error)
        read_only_module.compile_library(instances.installations.of(server.pg_major), source, library)
        boot(instances, server)
        modules = Modules()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(read_only_module, "library_of", lambda major: library)
            assert modules.provide(instances.paths(server.service_id), server.pg_major) is not None
        instances.remove(server.service_id, 10)


@pytest.mark.parametrize("build", [b"", b"no library", None], ids=["empty", "text", "another library"])
def test_a_module_that_cannot_be_loaded_lets_clients_in(
    instances: Instances, tmp_path: Path, build: bytes | None
) -> None:
    """The third one is a library of this host that is no module of PostgreSQL."""
    broken = tmp_path / "broken.so"
    broken.write_bytes(Path(_sqlite3.__file__).read_bytes() if build is None else build)
    password = new_password()
    server = new_server(instances, password)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_only_module, "library_of", lambda major: broken)
        boot(instances, server)
        instances.secure(server, is_new=True, neutralize=False)
        instances.open(server)
        assert Tenant(instances, server, password).run("SELECT 1") == [(1,)]
        patch.setitem(vars(instances), "read_only_modules", Modules())
        eventually(lambda: instances.stop(server, 10))
        instances.start(server, Phase.OPEN)
        eventually(lambda: instances.await_ready(server, 0.5).ready)
        eventually(lambda: Tenant(instances, server, password).run("SELECT 1") == [(1,)])
        patch.setitem(vars(instances), "read_only_modules", Modules())
        instances.renew_access(server)
        assert Tenant(instances, server, password).run("SELECT 1") == [(1,)]
    instances.remove(server.service_id, 10)


def test_a_service_whose_module_is_not_built_any_more_lets_clients_in(instances: Instances) -> None:
    password = new_password()
    server = new_server(instances, password)
    with pytest.MonkeyPatch.context() as patch:
        boot(instances, server)
        instances.secure(server, is_new=True, neutralize=False)
        patch.setattr(read_only_module, "library_of", lambda major: instances.layout.services / "none.so")
        instances.open(server)
        assert Tenant(instances, server, password).run("SELECT 1") == [(1,)]
        (instances.paths(server.service_id).conf / "ramet_read_only.so").unlink(missing_ok=True)
        instances.open(server)
        assert Tenant(instances, server, password).run("SELECT 1") == [(1,)]
    instances.remove(server.service_id, 10)
