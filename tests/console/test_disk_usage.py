"""Disk usage: measured within a limited time for each page, and cached."""

from pathlib import Path

from ramet.console.views.disk_usage import DiskUsage
from ramet.errors import Failed
from tests.worlds import make_world


def test_sizes_that_a_page_has_no_time_to_measure_are_left_to_the_next(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    services = [world.create(name) for name in ("one", "two", "three")]
    now = [0.0]

    def slow(_: str) -> int:
        now[0] += 0.015
        return 7

    world.backend.host.disk_usage = slow  # type: ignore[method-assign,assignment]
    disk_usage = DiskUsage(world.plane, lambda: now[0])
    first, second, third = (service.id for service in services)
    assert disk_usage.of(services) == {first: 7, second: 7}
    assert disk_usage.of(services) == {first: 7, second: 7, third: 7}
    asked = now[0]
    assert disk_usage.of(services) == {first: 7, second: 7, third: 7}
    assert now[0] == asked
    world.store.close()


def test_a_failed_measurement_is_cached_too(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    service = world.create()
    asked = []

    def broken(service_id: str) -> int:
        asked.append(service_id)
        raise Failed("BROKEN", "It cannot be determined")

    world.backend.host.disk_usage = broken  # type: ignore[method-assign]
    disk_usage = DiskUsage(world.plane, lambda: 0.0)
    assert [disk_usage.of([service]) for _ in range(2)] == [{service.id: None}] * 2
    assert asked == [service.id]
    world.store.close()
