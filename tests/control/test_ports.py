"""The ports of new servers: probed before the transaction that reserves them."""

from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from ramet.backends.memory.host import MemoryHost
from ramet.control import poolers, replica_sets
from ramet.control.ports import free_ports, reserve_ports
from ramet.control.replica_sets import ReplicaSetRequest
from ramet.errors import NotFound, Unavailable
from ramet.store import services
from ramet.store.database import Store
from tests.worlds import World


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the ports that were probed; fail where one is probed while a transaction that writes is open."""
    ports: list[int] = []
    write, writing = Store.write, [0]

    @contextmanager
    def counted(store: Store, **options: Any) -> Any:
        transaction: AbstractContextManager[Any] = write(store, **options)
        with transaction as tx:
            writing[0] += 1
            try:
                yield tx
            finally:
                writing[0] -= 1

    def port_is_free(_host: MemoryHost, port: int) -> bool:
        assert writing[0] == 0
        ports.append(port)
        return True

    monkeypatch.setattr(Store, "write", counted)
    monkeypatch.setattr(MemoryHost, "port_is_free", port_is_free)
    return ports


def test_no_port_is_probed_in_a_transaction_that_others_wait_for(world: World, probed: list[int]) -> None:
    parent = world.create()
    fork = world.fork(parent)
    poolers.enable_pooler(world.plane, world.project.id, parent.id)
    made = replica_sets.create_set(world.plane, world.project.id, parent.id, ReplicaSetRequest("reports", 2, 500, 2))
    assert {parent.port, fork.port, made.port, *(node.port for node in made.nodes)} <= set(probed)


def test_ports_that_others_have_taken_since_they_were_probed_are_not_reserved(world: World) -> None:
    free = free_ports(world.plane)
    service = world.create()
    with world.store.write() as tx:
        services.update_service(tx, service.id, port=free[0])
        assert reserve_ports(world.plane, tx, free) == [free[1]]
        with pytest.raises(Unavailable, match="just taken"):
            reserve_ports(world.plane, tx, free[:1])


def test_a_pooler_of_no_set_is_refused_by_its_id(world: World) -> None:
    service = world.create()
    for set_id in ("no-id", "abcdefghij"):
        with pytest.raises(NotFound, match="no read replica set"):
            replica_sets.enable_pooler(world.plane, world.project.id, service.id, set_id)
