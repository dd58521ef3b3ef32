"""Settings of a service's own in a real server."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Primary, Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.process import postgres
from ramet.backends.local.server.log_reader import read_log
from ramet.backends.local.server.parameters import with_own
from ramet.backends.local.sql.connections import value
from ramet.errors import Failed, Invalid
from ramet.model.environment import Environment
from ramet.model.logs import LogQuery
from ramet.model.parameters import PARAMETERS
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from tests.backends.contract.grounds import on_this_host
from tests.backends.local.hosts import connect, make_servers, new_server


def with_settings(server: Server, **settings: str) -> Server:
    return replace(server, parameters=tuple(sorted((name.replace("__", "."), one) for name, one in settings.items())))


def test_what_auto_explain_knows_is_configured_with_it_and_it_is_loaded_where_it_is_installed() -> None:
    groups = {"Behaviour": {"session_preload_libraries": '"/module.so"', "work_mem": "4MB"}}
    plain = Server(
        "a000000000", ServiceType.POSTGRES, Environment.DEV, Size(), "localhost", 5432, pg_major=16, verifier=Secret("")
    )
    server = with_settings(
        plain, auto_explain__log_analyze="on", max_connections="60", max_locks_per_transaction="64", work_mem="7MB"
    )
    by_major = {major: with_own(groups, replace(server, pg_major=major)) for major in (15, 16)}
    assert [len(found["Behaviour"]) for found in by_major.values()] == [0, 0]
    own = by_major[16]["Of the service"]
    assert own["session_preload_libraries"] == 'auto_explain, "/module.so"'
    assert set(own) - set(by_major[15]["Of the service"]) == {"auto_explain.log_parameter_max_length"}
    replica = replace(server, primary=Primary("a000000000", 5432))
    kept = with_own(groups, replica)["Of the service"].keys()
    assert own.keys() - kept == {"max_connections", "max_locks_per_transaction"}
    assert "session_preload_libraries" in with_own(groups, server, explains=False)["Behaviour"]


def test_settings_that_are_tried_at_once_do_not_share_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def read_late(file: Path, *_: object) -> None:
        if not tried:
            tried.append("")
            instances.config.why_unreadable(with_settings(server, work_mem="8MB"))
        tried.append(file.read_text())

    with make_servers() as instances:
        server = new_server(instances)
        instances.make_directories(server)
        monkeypatch.setattr(postgres, "why_unreadable", read_late)
        instances.config.why_unreadable(with_settings(server, work_mem="7MB"))
    assert ["'8MB'" in tried[1], "'7MB'" in tried[2]] == [True, True]


def test_settings_are_tried_applied_online_and_logged_statements_are_masked() -> None:
    with on_this_host() as ground:
        server, parameters = ground.create("one"), ground.backend.parameters
        password = ground.passwords[server.service_id]
        paths = cast("LocalBackend", ground.backend).instances.paths(server.service_id)
        with connect(server, password) as session:
            session.autocommit = True
            before = (paths.config_file.read_text(), value(session, "SHOW work_mem"))
            for wrong in (with_settings(server, work_mem="7 parsecs"), with_settings(server, no_such_setting="1")):
                with pytest.raises(Invalid, match="does not accept"):
                    parameters.check(wrong)
                with pytest.raises(Failed, match="does not accept"):
                    parameters.apply(wrong)
            assert (paths.config_file.read_text(), value(session, "SHOW work_mem")) == before
            assert [each.name for each in paths.conf.iterdir() if "tried" in each.name] == []

            plain = with_settings(server, work_mem="7MB", statement_timeout="20s")
            assert list(parameters.apply(plain)) == []
            eventually(lambda: value(session, "SHOW work_mem") == "7MB")
            assert parameters.in_force(plain, ["statement_timeout"])["statement_timeout"].value == "20s"

            explained = with_settings(
                server, auto_explain__log_min_duration="0", log_min_duration_statement="0", work_mem="7MB"
            )
            parameters.check(explained)
            assert list(parameters.apply(explained)) == []
        with connect(server, password) as session:
            session.autocommit = True
            eventually(lambda: value(session, "SHOW log_min_duration_statement") == "0")
            session.execute("SELECT count(*) FROM pg_class WHERE relname LIKE '%hunter2'")
            session.execute("CREATE ROLE app PASSWORD 'hunter2hunter2'")

            def logged() -> list[str]:
                return [one.message for one in read_log(paths, LogQuery(search=["duration: "])).entries]

            eventually(lambda: any("plan:" in one and "Filter" in one for one in logged()))
            eventually(lambda: any("CREATE ROLE app" in one for one in logged()))
            assert "hunter2" not in repr(logged())
            assert not any("pg_file_settings" in one for one in logged())
        assert list(parameters.apply(server)) == []
        with connect(server, password) as session:
            eventually(lambda: value(session, "SHOW work_mem") == before[1])


def test_postgresql_knows_every_setting_with_the_same_range() -> None:
    """A value at each end of a range of ours is one that PostgreSQL accepts."""
    with on_this_host() as ground:
        server = ground.new_server()
        ground.backend.servers.initialize(server)
        for end in ("low", "high"):
            ends = {
                name: one.choices[-1] if one.choices else f"{getattr(one, end):.12g}"
                for name, one in PARAMETERS.items()
                if "." not in name
            }
            ground.backend.parameters.check(replace(server, parameters=tuple(sorted(ends.items()))))
