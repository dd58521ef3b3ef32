"""The feed of changes: the first event of a stream, and versions."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from ramet.console.live.change_feed import ChangeFeed, changes
from ramet.store import services
from tests.worlds import World, make_world


def _first_event(feed: ChangeFeed, world: World, version: str) -> str:
    async def first() -> str:
        stream = changes(feed, world.key, version, lambda: True)
        try:
            return str((await anext(stream)).data)
        finally:
            await stream.aclose()

    return asyncio.run(first())


def test_the_first_event_says_whether_the_page_is_out_of_date(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    service = world.create("shop")
    now = [0.0]
    feed = ChangeFeed(world.plane, lambda: now[0])
    assert feed.last_version(world.key) == ""
    assert _first_event(feed, world, "") == "*"
    seen = feed.last_version(world.key)
    assert _first_event(feed, world, seen) == "same"
    with world.store.write() as tx:
        services.update_service(tx, service.id, name="store")
    now[0] = 60.0
    assert _first_event(feed, world, seen) == "*"
    assert feed.last_version(world.key) != seen
    assert feed.last_version(replace(world.key, project_id="nobody")) == ""
    world.store.close()
