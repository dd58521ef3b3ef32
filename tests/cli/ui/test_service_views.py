"""How lists of services look."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from ramet.api.schemas.services import ForkedFrom, HaReplicas, Service, ServiceMetadata, ServiceMetrics
from ramet.api.schemas.shared import Endpoint
from ramet.cli.commands.greeting import _after
from ramet.cli.ui.service_views import COLUMNS, lineage, print_service, print_services
from ramet.model.environment import Environment
from ramet.model.service_type import ServiceType
from ramet.model.status import Status


def _service(service_id: str, parent: str | None = None) -> Service:
    return Service(
        service_id=service_id,
        project_id="p",
        name=service_id,
        region_code="local",
        service_type=ServiceType.POSTGRES,
        created=datetime(2026, 1, 1, tzinfo=UTC),
        paused=False,
        status=Status.READY,
        resources=[],
        metadata=ServiceMetadata(Environment.DEV),
        endpoint=Endpoint("localhost", 15432),
        vpcEndpoint=None,
        vpc_endpoint=None,
        forked_from=None if parent is None else ForkedFrom("p", parent, False),
        ha_replicas=HaReplicas(0, 0),
        connection_pooler=None,
        read_replica_sets=[],
        metrics=None,
    )


def test_forks_are_listed_below_their_parents_in_order() -> None:
    services = [_service("a"), _service("b", "a"), _service("c"), _service("d", "b"), _service("e", "a")]
    drawn = [branch + service.name for branch, service in lineage(services)]
    assert drawn == ["a", "├─ b", "│  └─ d", "└─ e", "c"]


def test_a_fork_of_a_deleted_parent_is_listed_at_the_top_level() -> None:
    assert [branch for branch, _ in lineage([_service("b", "gone")])] == [""]


def test_two_thousand_generations_of_forks_are_drawn() -> None:
    services = [_service("s0"), *(_service(f"s{n}", f"s{n - 1}") for n in range(1, 2000))]
    assert len(lineage(services)) == 2000


def test_a_table_in_a_pipe_has_no_trailing_spaces_and_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    print_services([_service("a"), _service("b", "a")], "table")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [column for column in COLUMNS if column != "own"]
    assert len(lines) == 3
    assert all(line == line.rstrip() and "\x1b" not in line for line in lines)


def test_own_space_stands_beside_the_apparent_size_where_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    fork = replace(_service("b", "a"), metrics=ServiceMetrics(14, 1048, 0, 16))
    print_services([_service("a"), fork], "table")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == list(COLUMNS)
    assert "1048 MB   16 MB" in lines[2]
    print_service(fork, "table")
    assert "1048 MB, of its own 16 MB" in capsys.readouterr().out


def test_the_greeting_counts_no_service_that_is_being_deleted() -> None:
    leaving = replace(_service("b"), status=Status.DELETING)
    situation, _ = _after("http://127.0.0.1:1/public", [replace(_service("a"), status=Status.READY), leaving])
    assert "1 service, 1 READY" in situation


def test_what_is_not_measured_yet_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_service(_service("a"), "table")
    print_service(replace(_service("b"), metrics=ServiceMetrics(14, 1048, 0)), "table")
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in printed if line[0] == "space"] == [["space", "1048", "MB"]]


def test_a_service_without_free_storage_is_shown_as_read_only_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    warning = "The storage has 7 MiB left."
    full = replace(_service("a"), metadata=ServiceMetadata(Environment.DEV, storage_warning=warning))
    print_services([full, replace(full, service_id="b"), _service("c")], "table")
    listed = capsys.readouterr()
    assert [("READY, read-only" in line) for line in listed.out.splitlines()] == [False, True, True, False]
    assert listed.err.splitlines() == [warning]
    print_service(full, "table")
    assert warning in capsys.readouterr().out
