"""What open pages are told: changes since the version that they show, and since then."""

import asyncio
from pathlib import Path

from ramet.console.live.change_feed import Pulses, changes
from ramet.store import services
from tests.worlds import World, make_world


def _first_event(pulses: Pulses, world: World, version: str) -> bytes:
    async def first() -> bytes:
        stream = changes(pulses, world.project.id, version)
        try:
            return await anext(stream)
        finally:
            await stream.aclose()  # type: ignore[attr-defined]

    return asyncio.run(first())


def test_a_page_is_told_whether_it_is_old(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    service = world.create("shop")
    now = [0.0]
    pulses = Pulses(world.plane, lambda: now[0])
    assert pulses.last_version(world.project.id) == ""
    assert b"data: *" in _first_event(pulses, world, "")
    seen = pulses.last_version(world.project.id)
    assert b"data: same" in _first_event(pulses, world, seen)
    with world.store.write() as tx:
        services.update_service(tx, service.id, name="store")
    now[0] = 60.0
    assert b"data: *" in _first_event(pulses, world, seen)
    assert pulses.last_version(world.project.id) != seen
    assert pulses.last_version("nobody") == ""
    world.store.close()
