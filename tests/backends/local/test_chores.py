"""Programs that work on a server in the background."""

from ramet.backends.base import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.chores import Finished
from tests.backends.local.forks import paths_of
from tests.backends.local.hosts import eventually


def test_a_program_is_begun_once_and_watched(backend: LocalBackend, parent: Server) -> None:
    chores, paths = backend.servers.chores, paths_of(backend, parent)
    psql = backend.servers.installations.default.program("psql")
    command = [psql, "--no-psqlrc", "-Atc", "SELECT pg_sleep(0.3), pg_postmaster_start_time() IS NOT NULL"]
    assert chores.run(paths, "wait", command, 0.05) is None
    found: list[Finished] = []

    def is_over() -> bool:
        finished = chores.run(paths, "wait", command, 0.1)
        found.extend([] if finished is None else [finished])
        return bool(found)

    eventually(is_over)
    assert (found[0].status, found[0].output) == (0, "|t")


def test_what_a_program_complains_of_is_kept(backend: LocalBackend, parent: Server) -> None:
    psql = backend.servers.installations.default.program("psql")
    finished = backend.servers.chores.run(paths_of(backend, parent), "fail", [psql, "-c", "SELECT 1/0"], 20)
    assert finished is not None
    assert finished.status != 0
    assert "division by zero" in finished.output


def test_a_service_that_goes_away_takes_its_programs_with_it(backend: LocalBackend, parent: Server) -> None:
    chores, paths = backend.servers.chores, paths_of(backend, parent)
    psql = backend.servers.installations.default.program("psql")
    assert chores.run(paths, "long", [psql, "-c", "SELECT pg_sleep(600)"], 0.05) is None
    chores.end(parent.service_id)
    finished = chores.run(paths, "long", [psql, "-Atc", "SELECT 7"], 20)
    assert finished is not None
    assert finished.output == "7"
