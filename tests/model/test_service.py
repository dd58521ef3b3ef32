"""The status that clients see, and names."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from ramet.errors import Invalid
from ramet.model.environment import Environment
from ramet.model.names import check_name, fork_name
from ramet.model.passwords import Secret
from ramet.model.service import Service, is_visible, status_of, status_reason
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from ramet.model.status import FAILED_SHOWN_FOR, Activity, OperationStatus, Status

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SERVICE = Service(
    id="a" * 10,
    project_id="p" * 10,
    name="shop",
    region_code="local",
    service_type=ServiceType.POSTGRES,
    environment=Environment.DEV,
    size=Size(),
    volume_type="memory",
    host="localhost",
    port=15432,
    pg_major=18,
    created_at=NOW,
    verifier=Secret("x"),
    ready_at=NOW,
)


def busy(procedure: str, status: OperationStatus = OperationStatus.RUNNING, *, started: bool = True) -> Service:
    return replace(SERVICE, activity=Activity("o", procedure, status, started, "It broke."))


@pytest.mark.parametrize(
    ("service", "status"),
    [
        (SERVICE, Status.READY),
        (replace(SERVICE, paused=True), Status.PAUSED),
        (replace(SERVICE, down_reason="It crashed."), Status.UNSTABLE),
        (replace(SERVICE, failed_at=NOW, failure="No room."), Status.UNSTABLE),
        (replace(SERVICE, deleted_at=NOW), Status.DELETED),
        (busy("create", started=False), Status.QUEUED),
        (busy("fork", started=False), Status.QUEUED),
        (busy("create"), Status.CONFIGURING),
        (busy("fork"), Status.CONFIGURING),
        (busy("fork", OperationStatus.UNDOING), Status.UNSTABLE),
        (busy("stop", started=False), Status.PAUSING),
        (busy("start"), Status.RESUMING),
        (busy("restart"), Status.UNSTABLE),
        (busy("resize"), Status.UPGRADING),
        (busy("delete"), Status.DELETING),
    ],
)
def test_the_status_follows_from_the_operation_and_the_observation(service: Service, status: Status) -> None:
    assert status_of(service) is status


def test_only_an_unstable_service_has_a_reason() -> None:
    assert status_reason(SERVICE) is None
    assert status_reason(replace(SERVICE, failed_at=NOW, failure="No room.")) == "No room."
    assert status_reason(replace(SERVICE, down_reason="It crashed.")) == "It crashed."
    assert status_reason(busy("fork", OperationStatus.UNDOING)) == "It broke."


def test_a_failed_service_is_shown_for_more_than_ten_seconds_and_then_gone() -> None:
    failed = replace(SERVICE, failed_at=NOW)
    assert FAILED_SHOWN_FOR.total_seconds() > 10
    assert is_visible(failed, NOW)
    assert not is_visible(failed, NOW + FAILED_SHOWN_FOR)


def test_a_deleted_service_is_gone_at_once() -> None:
    assert not is_visible(replace(SERVICE, deleted_at=NOW), NOW)


def test_a_forks_name_is_the_parents_with_a_suffix_and_fits() -> None:
    assert fork_name("shop") == "shop-fork"
    assert len(fork_name("x" * 128)) == 128
    assert fork_name("x" * 128).endswith("-fork")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("", "empty"),
        ("   ", "only spaces"),
        ("x" * 129, "it has 129"),
        ("a\0b", "holds others"),
        ("a\nb", "holds others"),
        ("a\u202eb", "holds others"),
        ("a\u2028b", "holds others"),
        ("\u200b\u00a0", "only spaces"),
    ],
)
def test_bad_names_are_refused(name: str, wrong: str) -> None:
    with pytest.raises(Invalid, match=f"name must have 1 to 128 .*{wrong}"):
        check_name(name)


@pytest.mark.parametrize(
    "name", ["x", "x" * 128, "Größe 1", "名前", "a'b\"c", "می\u200cخواهم", "👩\u200d💻", "a\u00a0b", "\U0001fae8"]
)
def test_good_names_are_kept(name: str) -> None:
    assert check_name(name) == name
