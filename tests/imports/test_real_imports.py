"""Imports of real databases, by the whole product: compared by pg_dump, watched on a slow link, and interrupted."""

import os
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from harness.instance import Instance, connect
from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.client import WaitFailed
from ramet.client.errors import ApiError
from ramet.model.passwords import Secret
from tests.imports.conftest import LEFT_OUT, SCHEMA
from tests.imports.dumps import comparable, dump
from tests.sources import MAJORS, OWNER, PASSWORD, Source, open_link

pytestmark = pytest.mark.slow
_OWNED_BY_THE_PLATFORM = """
SELECT count(*) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
WHERE relowner = 10 AND nspname IN ('app', 'public', 'Odd schema') AND relname !~ 'pg_stat_statements'
"""
_ROWS = "CREATE TABLE big AS SELECT i, md5(i::text) AS text FROM generate_series(1, 40000) i"


def variables_of(source: Source) -> dict[str, str]:
    return {
        "PGHOST": str(source.directory), "PGPORT": str(source.own_port), "PGUSER": OWNER, "PGDATABASE": "shop",
        "PGPASSWORD": PASSWORD.reveal(),
    }  # fmt: skip


def variables_of_service(service: Service) -> dict[str, str]:
    return {
        "PGHOST": "localhost", "PGPORT": str(service.endpoint.port), "PGUSER": "tsdbadmin", "PGDATABASE": "tsdb",
        "PGPASSWORD": str(service.initial_password),
    }  # fmt: skip


def begin(ramet: Instance, url: str, source: Source, **fields: Any) -> Service:
    with ramet.client() as client:
        return client.import_service("shop", url, PASSWORD, root_certificate=source.root_certificate, **fields)


def finish(ramet: Instance, accepted: Service) -> Service:
    with ramet.client() as client:
        return client.wait_ready(accepted.service_id, timeout_seconds=280)


def remove(ramet: Instance, service: Service) -> None:
    with ramet.client() as client:
        client.delete_service(service.service_id)
        client.wait_deleted(service.service_id, timeout_seconds=120)


def progress_of(ramet: Instance, service: Service) -> tuple[str, str]:
    (row,) = ramet.rows(
        "SELECT step, progress FROM operation WHERE subject = ? AND procedure = 'import'", service.service_id
    )
    return row[0], row[1]


def failed(ramet: Instance, accepted: Service) -> str:
    """Return why an import failed, after all of it is gone."""
    with ramet.client() as client:
        with pytest.raises(WaitFailed) as raised:
            client.wait_ready(accepted.service_id, timeout_seconds=120)
        ramet.await_idle()
        report = client.import_report(accepted.service_id)
    assert report.status == "FAILED"
    assert report.error is not None
    assert ramet.leftovers() == []
    assert not (ramet.data / "pool" / "services" / accepted.service_id).exists()
    assert programs(ramet) == []
    return f"{report.error} {raised.value.details}"


def programs(ramet: Instance) -> list[str]:
    """Return the command lines of the tools that imports of an instance run."""
    found = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    tools = [line for line in found if "pg_dump --format=directory" in line or "pg_restore --dbname" in line]
    return [line for line in tools if str(ramet.root) in line]


@pytest.mark.timeout(600)
def test_an_imported_database_is_what_pg_dump_says_of_its_source(ramet: Instance, source: Source) -> None:
    source.run(SCHEMA)
    if source.installation.major >= 16:
        source.run('GRANT app_owner TO "Odd role" WITH INHERIT FALSE')
    accepted = begin(ramet, source.url(sslmode="verify-full"), source)
    finish(ramet, accepted)
    with ramet.client() as client:
        major = client.import_report(accepted.service_id).pg_major
    expected = comparable(dump(major, variables_of(source)), OWNER)
    assert comparable(dump(major, variables_of_service(accepted))) == expected
    with connect(accepted.endpoint.port, str(accepted.initial_password)) as service:
        assert service.execute(
            "SELECT rolname FROM pg_roles WHERE rolcanlogin AND rolname !~ '^(pg_|ramet)'"
        ).fetchall() == [("tsdbadmin",)]
        assert service.execute("SHOW search_path").fetchone() == ('app, "$user", public',)
        assert service.execute("SELECT pg_has_role('reader', 'app_rw', 'MEMBER WITH ADMIN OPTION')").fetchone() == (
            True,
        )
        assert service.execute("SELECT pg_has_role('Odd role', 'app_owner', 'USAGE')").fetchone() == (False,)
        assert service.execute("SELECT count(*) FROM pg_stats WHERE tablename = 'orders'").fetchone() != (0,)
        assert service.execute(_OWNED_BY_THE_PLATFORM).fetchone() == (0,)
        service.execute("INSERT INTO app.customers (name) VALUES ('new')")
        service.execute("CREATE TABLE app.more (id int)")
    with ramet.client() as client:
        report = client.import_report(accepted.service_id)
        fork = client.fork_service(accepted.service_id, "LAST_SNAPSHOT", name="fork")  # type: ignore[arg-type]
        client.wait_ready(fork.service_id, timeout_seconds=120)
    assert (report.status, report.problems, report.loaded_tables) == ("SUCCEEDED", [], 505)
    with connect(fork.endpoint.port, str(fork.initial_password)) as forked:
        assert forked.execute("SELECT count(*) FROM app.orders").fetchone() == (3000,)
    for one in (fork, accepted):
        remove(ramet, one)


@pytest.mark.timeout(600)
def test_what_a_service_cannot_have_is_left_out_and_reported(ramet: Instance, source: Source) -> None:
    source.run(SCHEMA.partition("DO $$")[0])
    source.run(LEFT_OUT)
    try:
        accepted = begin(ramet, source.url(), source, keep_owners=False, pg_major=max(MAJORS))
        finish(ramet, accepted)
        with ramet.client() as client:
            report = client.import_report(accepted.service_id)
        assert report.pg_major == max(MAJORS)
        subjects = {one.subject: one.message for one in report.findings}
        assert subjects["event triggers"] == "watched: left out"
        assert subjects["publications"] == "everything: left out"
        assert subjects["subscriptions"] == "sub: left out"
        assert subjects["privileges"].startswith("those on the database itself are left out")
        assert report.problems is not None
        assert ["log_statement" in one for one in report.problems] == [True]
        with connect(accepted.endpoint.port, str(accepted.initial_password)) as service:
            assert service.execute("SELECT pubname, pubowner::regrole::text FROM pg_publication").fetchall() == [
                ("pub", "tsdbadmin")
            ]
            owners = "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relnamespace = 'app'::regnamespace"
            assert service.execute(owners).fetchall() == [("tsdbadmin",)]
            assert service.execute("SELECT count(*) FROM pg_roles WHERE rolname = 'app_owner'").fetchone() == (0,)
            assert service.execute("SELECT count(*) FROM pg_subscription").fetchone() == (0,)
        remove(ramet, accepted)
    finally:
        source.run("ALTER SUBSCRIPTION sub SET (slot_name = NONE)")
        source.run("DROP SUBSCRIPTION sub")


def test_code_of_the_source_does_not_run_as_a_superuser(ramet: Instance, plain_source: Source) -> None:
    # The function says in its own comment who ran it: a row of a table could be truncated by a parallel restore.
    plain_source.run(
        """
        CREATE FUNCTION note(i int) RETURNS int LANGUAGE plpgsql AS $$
        BEGIN
            RESET ROLE;
            EXECUTE format('COMMENT ON FUNCTION public.note(int) IS %L', concat_ws(', ',
                obj_description('public.note(int)'::regprocedure, 'pg_proc'),
                session_user || ' ' || (SELECT rolsuper::text FROM pg_roles WHERE rolname = current_user)));
            RETURN i;
        END $$;
        CREATE TABLE bait (i int CHECK (note(i) = i)); INSERT INTO bait VALUES (1);
        COMMENT ON FUNCTION note(int) IS NULL;
        """
    )
    accepted = begin(ramet, plain_source.url(), plain_source)
    finish(ramet, accepted)
    with connect(accepted.endpoint.port, str(accepted.initial_password)) as service:
        comment = "obj_description('public.note(int)'::regprocedure, 'pg_proc')"
        found = service.execute(f"SELECT DISTINCT unnest(string_to_array({comment}, ', '))").fetchall()
        assert found == [("tsdbadmin false",)]
    remove(ramet, accepted)


def test_a_slow_link_shows_its_progress_and_ends_well(ramet: Instance, plain_source: Source) -> None:
    plain_source.run(_ROWS)
    seen: set[str] = set()
    with open_link(plain_source.own_port) as link:
        link.pause_seconds = 0.01
        plain_source.port = link.port
        accepted = begin(ramet, plain_source.url(), plain_source)

        def is_loaded() -> bool:
            step, progress = progress_of(ramet, accepted)
            if step == "fetch":
                seen.add(progress)
            return step not in ("initialize", "fetch")

        eventually(is_loaded, "the end of the copy", pause_seconds=0.05)
        finish(ramet, accepted)
    assert len({one for one in seen if "of 1 tables begun" in one and "MiB received" in one}) > 1
    with connect(accepted.endpoint.port, str(accepted.initial_password)) as service:
        assert service.execute("SELECT count(*), sum(i) FROM big").fetchone() == (40000, 800020000)
    remove(ramet, accepted)


def stuck(ramet: Instance, source: Source, act: Callable[[Service], None]) -> Service:
    """Begin an import whose source delivers nothing more after some bytes, and act then."""
    source.run(_ROWS)
    with open_link(source.own_port) as link:
        source.port = link.port
        accepted = begin(ramet, source.url(), source)
        link.pause_seconds, link.passed = 2.0, 0
        eventually(lambda: bool(programs(ramet)) and link.passed > 0, "the copy")
        act(accepted)
        link.pause_seconds = 0.0
        link.cut()
    return accepted


def test_a_source_that_is_killed_leaves_its_reason_and_nothing_else(ramet: Instance, plain_source: Source) -> None:
    accepted = stuck(ramet, plain_source, lambda _: plain_source.kill())
    reason = failed(ramet, accepted)
    assert "pg_dump could not read postgres@localhost" in reason


def test_an_import_is_canceled_by_deleting_the_service(ramet: Instance, plain_source: Source) -> None:
    def cancel(accepted: Service) -> None:
        with ramet.client() as client:
            client.delete_service(accepted.service_id)
            client.wait_deleted(accepted.service_id, timeout_seconds=120)

    accepted = stuck(ramet, plain_source, cancel)
    ramet.await_idle()
    with ramet.client() as client:
        report = client.import_report(accepted.service_id)
    assert (report.status, report.error) == ("FAILED", "It was canceled.")
    assert ramet.leftovers() == []
    assert programs(ramet) == []


@pytest.mark.crash
@pytest.mark.parametrize("step", ["fetch", "load"])
def test_an_import_continues_after_the_worker_was_killed(ramet: Instance, plain_source: Source, step: str) -> None:
    plain_source.run(_ROWS)
    plain_source.run("CREATE INDEX ON big (text); CREATE INDEX ON big (i, text)")
    accepted = begin(ramet, plain_source.url(), plain_source)
    eventually(lambda: progress_of(ramet, accepted)[0] == step, f"step {step}", pause_seconds=0.001)
    ramet.kill()
    ramet.up()
    finish(ramet, accepted)
    with connect(accepted.endpoint.port, str(accepted.initial_password)) as service:
        assert service.execute("SELECT count(*), sum(i) FROM big").fetchone() == (40000, 800020000)
    remove(ramet, accepted)


def test_the_password_is_nowhere_but_in_its_own_file(ramet: Instance, plain_source: Source) -> None:
    secrets = (PASSWORD.reveal().encode(), b"secret of app_rw")
    plain_source.run(
        "CREATE ROLE app_rw LOGIN PASSWORD 'secret of app_rw'; CREATE TABLE t (i int); ALTER TABLE t OWNER TO app_rw"
    )
    lines: set[str] = set()

    def look(accepted: Service) -> None:
        lines.update(line for one in psutil.process_iter() for line in _everything_of(one))
        assert any("pg_dump" in line for line in lines)
        for content in ramet.store_files().values():
            assert not any(secret in content for secret in secrets)

    accepted = stuck(ramet, plain_source, look)
    failed(ramet, accepted)
    assert not any(secret.decode() in line for line in lines for secret in secrets)
    assert not any(secret in ramet.log_file.read_bytes() for secret in secrets)
    for content in ramet.store_files().values():
        assert not any(secret in content for secret in secrets)


def _everything_of(process: psutil.Process) -> list[str]:
    if process.pid == os.getpid():
        return []
    try:
        return [*process.cmdline(), *process.environ().values()]
    except (psutil.Error, OSError):
        return []


@pytest.mark.parametrize(
    ("query", "words"),
    [("", "its certificate could not be verified"), ("?sslmode=disable", "no encryption")],
    ids=["another authority", "no TLS"],
)
def test_a_connection_that_is_not_as_wanted_is_refused(
    ramet: Instance, plain_source: Source, query: str, words: str
) -> None:
    other = ramet.data / "secrets" / "ca.crt"
    url = plain_source.url() + (query or "?sslmode=verify-ca")
    with ramet.client() as client, pytest.raises(ApiError, match="could not be examined") as raised:
        client.import_service("shop", url, PASSWORD, root_certificate=other.read_text())
    assert words in raised.value.details


def test_rights_and_extensions_are_checked_before_anything_is_made(ramet: Instance, plain_source: Source) -> None:
    plain_source.run(
        "CREATE ROLE poor LOGIN PASSWORD 'poor'; CREATE TABLE rich (i int);"
        "CREATE EXTENSION pageinspect;"
        "CREATE FUNCTION sum2(float8, float8) RETURNS float8 LANGUAGE internal AS 'float8pl';"
        "ALTER FUNCTION sum2 OWNER TO pg_write_all_data; CREATE POLICY all_rows ON rich TO pg_write_all_data"
    )
    with ramet.client() as client:
        before = client.list_services()
        with pytest.raises(ApiError, match="cannot be imported") as raised:
            client.import_service("shop", plain_source.url(user="poor"), Secret("poor"))
        report = client.plan_import("shop", plain_source.url(user="poor"), Secret("poor"))
        assert client.list_services() == before
    found = {one.subject: one.message for one in report.findings if one.effect == "REFUSED"}
    assert found == {
        "extensions": "services cannot take over pageinspect",
        "objects": "only a superuser may create function in language internal public.sum2",
        "policies": "policies name pg_write_all_data, which services of PostgreSQL 15 do not have",
        "rights": "the role may not read public.rich",
        "roles": "pg_write_all_data is a name that services reserve",
    }
    assert "rights: the role may not read public.rich" in raised.value.details


def test_a_wrong_password_and_a_source_that_is_away_are_said(ramet: Instance, plain_source: Source) -> None:
    with ramet.client() as client:
        with pytest.raises(ApiError, match="could not be examined") as raised:
            client.plan_import("shop", plain_source.url(), Secret("wrong"))
        assert raised.value.details == 'password authentication failed for user "postgres"'
        plain_source.kill()
        with pytest.raises(ApiError, match="could not be examined") as raised:
            client.plan_import("shop", plain_source.url(), PASSWORD)
        assert "Connection refused" in raised.value.details


def test_the_command_line_imports_with_a_password_from_the_environment(ramet: Instance, plain_source: Source) -> None:
    plain_source.run("CREATE TABLE t AS SELECT 1 AS i")
    url = plain_source.url()
    ramet.environment["PGPASSWORD"] = PASSWORD.reveal()
    ramet.environment["RAMET_CREDENTIALS_FILE"] = str(ramet.credentials_file)
    try:
        planned = ramet.run("service", "import", "typed", "--from", url, "--dry-run")
        assert planned.returncode == 0, planned.stderr
        assert "owners" in planned.stdout
        wanted = str(max(MAJORS))
        done = ramet.run("service", "create", "typed", "--from", url, "--no-owner", "--pg-version", wanted)
        assert done.returncode == 0, done.stderr
        assert "1 tables" in done.stdout
        shown = ramet.run("service", "report", "typed")
        assert "fetched" in shown.stdout
        refused = ramet.run("service", "import", "other", "--from", url.replace("postgres@", "postgres:geheim@"))
        assert (refused.returncode, "contains a password" in refused.stderr) == (3, True)
    finally:
        del ramet.environment["PGPASSWORD"], ramet.environment["RAMET_CREDENTIALS_FILE"]
    with ramet.client() as client:
        (service,) = [one for one in client.list_services() if one.name == "typed"]
    remove(ramet, service)
