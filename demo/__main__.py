"""The story: a service under load is forked as of its last snapshot, now, and some seconds ago; all is checked."""

import argparse
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Any

from demo import checks
from demo.show import Show
from demo.stage import DemoFailed, make_home, remove, start
from demo.workload import Address, Ledger, Pgbench, address_of, load
from harness.instance import Instance
from ramet.api.schemas.services import Service
from ramet.cli.connection import connection_string
from ramet.cli.user_files.passwords import passwords_path, save_password
from ramet.client import Client
from ramet.errors import Error
from ramet.model.fork import ForkStrategy

_SECONDS_BACK = 5
_READY_WITHIN_SECONDS = 300


@dataclass
class Demo:
    """A running demo, and what it has made."""

    instance: Instance
    client: Client
    show: Show
    passwords: dict[str, str] = field(default_factory=dict)
    ready_seconds: dict[str, float] = field(default_factory=dict)
    failures: int = 0

    def ready(self, accepted: Service, begun: float) -> tuple[Service, Address]:
        """Wait for a new service, and note how long it took since the request was sent."""
        password = str(accepted.initial_password)
        ready = self.client.wait_ready(accepted.service_id, _READY_WITHIN_SECONDS)
        self.ready_seconds[ready.service_id] = time.monotonic() - begun
        self.passwords[ready.service_id] = password
        return ready, address_of(ready, password)

    def check(self, sentence: Any, *arguments: Any) -> None:
        """Make a check and print what it found; a failed one is counted, and the next one is made."""
        try:
            self.show.passed(sentence(*arguments))
        except DemoFailed as failure:
            self.failures += 1
            self.show.failed(str(failure))


def main() -> int:
    """Run the demo; return the exit code."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, _interrupt)
    show = Show()
    show.title("Ramet: fork a live PostgreSQL database")
    try:
        with ExitStack() as stack:
            return _run(show, arguments, stack)
    except (DemoFailed, Error) as error:
        show.say(f"\nThe demo failed: {error}", "bold red")
    except KeyboardInterrupt:
        show.say("\nInterrupted.", "yellow")
    return 1


def _run(show: Show, arguments: argparse.Namespace, stack: ExitStack) -> int:
    home = make_home()
    show.heading("The parent")
    with show.act("Start ramet up") as act:
        instance = start(home)
        act.note = instance.credentials["base_url"]
    is_kept = [False]
    stack.callback(lambda: None if is_kept[0] else _clean_up(show, instance))
    demo = Demo(instance, stack.enter_context(instance.client()), show)
    parent, address = _create(demo, arguments.scale)
    with ExitStack() as load_stack:
        pgbench, ledger = _begin_load(demo, address, arguments.clients, load_stack)
        _fork_three_ways(demo, parent, address, ledger)
        pgbench.check()
        ledger.check()
        _list(demo)
        demo.show.heading("Who did it")
        demo.check(checks.audit_tells, demo.client)
    if demo.failures:
        show.say(f"{demo.failures} checks failed.", "bold red")
        return 1
    show.say("Every check holds.", "bold green")
    is_kept[0] = arguments.keep
    if arguments.keep:
        _tell_how_to_go_on(demo)
    return 0


def _create(demo: Demo, scale: int) -> tuple[Service, Address]:
    with demo.show.act("Create the service shop") as act:
        begun = time.monotonic()
        parent, address = demo.ready(demo.client.create_service("shop"), begun)
        act.seconds = demo.ready_seconds[parent.service_id]
        act.note = f"{address.host}:{address.port}, storage {parent.resources[0].spec.volume_type}"
    with demo.show.act(f"Load pgbench, scale {scale}") as act:
        load(address, scale)
        act.note = f"{scale * 100_000:,} accounts"
    return parent, address


def _begin_load(demo: Demo, address: Address, clients: int, stack: ExitStack) -> tuple[Pgbench, Ledger]:
    with demo.show.act("Put it under load") as act:
        pgbench = Pgbench(address, clients)
        stack.callback(pgbench.stop)
        ledger = Ledger(address)
        stack.callback(ledger.stop)
        ledger.await_rows(200)
        pgbench.check()
        act.note = f"pgbench with {clients} clients, and one that appends numbered rows; both run until the end"
    return pgbench, ledger


def _fork_three_ways(demo: Demo, parent: Service, address: Address, ledger: Ledger) -> None:
    demo.show.heading("Three forks of it, under that load")
    acknowledged, taken_at = _snapshot(demo, parent, ledger)
    with demo.show.act(f"Let {_SECONDS_BACK} more seconds pass"):
        time.sleep(_SECONDS_BACK)
        target = datetime.now(UTC) - timedelta(seconds=_SECONDS_BACK / 2)

    fork = _fork(demo, parent, ForkStrategy.LAST_SNAPSHOT, "shop-last-snapshot")
    demo.check(checks.holds_snapshot, fork, address, taken_at, acknowledged)
    demo.check(checks.agrees_with_parent, fork, address)

    acknowledged = ledger.acknowledged
    fork = _fork(demo, parent, ForkStrategy.NOW, "shop-now")
    demo.check(checks.holds_all_acknowledged, fork, acknowledged)
    demo.check(checks.agrees_with_parent, fork, address)

    fork = _fork(demo, parent, ForkStrategy.PITR, "shop-some-seconds-ago", target)
    demo.check(checks.holds_exactly_until, fork, address, target)
    demo.check(checks.agrees_with_parent, fork, address)
    demo.check(checks.lives_on_its_own, fork, address)


def _snapshot(demo: Demo, parent: Service, ledger: Ledger) -> tuple[int, datetime]:
    """Take a snapshot; return the last row acknowledged before it was asked for, and its time."""
    acknowledged = ledger.acknowledged
    with demo.show.act("Take a snapshot of shop") as act:
        asked = demo.client.take_snapshot(parent.service_id, "demo")
        taken_at = demo.client.wait_snapshot(parent.service_id, asked.id, 60).time
        if taken_at is None:
            raise DemoFailed("the snapshot has no time")
        act.note = f"of {taken_at:%H:%M:%S.%f}"
    return acknowledged, taken_at


def _fork(demo: Demo, parent: Service, strategy: ForkStrategy, name: str, target: datetime | None = None) -> Address:
    target_time = None if target is None else target.isoformat()
    with demo.show.act(f"Fork {strategy.value}") as act:
        begun = time.monotonic()
        accepted = demo.client.fork_service(parent.service_id, strategy, target_time=target_time, name=name)
        fork, address = demo.ready(accepted, begun)
        act.seconds = demo.ready_seconds[fork.service_id]
        act.note = f"from the request to READY; {name} at {address.host}:{address.port}"
    return address


def _list(demo: Demo) -> None:
    demo.show.heading("All services")
    services = demo.client.list_services()
    backend = demo.instance.backend
    space = {service.service_id: backend.host.disk_usage(service.service_id) for service in services}
    demo.show.services(services, space, demo.ready_seconds)


def _tell_how_to_go_on(demo: Demo) -> None:
    demo.show.heading("All of it keeps running")
    for service in demo.client.list_services():
        demo.show.say(f'  psql "{connection_string(service.endpoint, demo.passwords[service.service_id])}"')
        save_password(service.endpoint, demo.passwords[service.service_id])
    demo.show.say(f"\n  (the passwords are in {passwords_path()} too)", "dim")
    demo.show.heading("For the command line")
    demo.show.say(f"  export RAMET_CREDENTIALS_FILE={demo.instance.credentials_file}\n  ramet service list")
    demo.show.heading("To end it")
    demo.show.say(f"  ramet down --data {demo.instance.data} && rm -r {demo.instance.root}")


def _clean_up(show: Show, instance: Instance) -> None:
    with show.act("Stop and remove everything"):
        remove(instance)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave all running, and print connection strings")
    parser.add_argument("--scale", type=int, default=10, help="the scale of pgbench (default: 10)")
    parser.add_argument("--clients", type=int, default=2, help="the clients of pgbench (default: 2)")
    return parser.parse_args()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
