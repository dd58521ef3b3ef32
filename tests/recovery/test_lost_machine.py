"""A machine is lost with all its files; another one brings its services back from the object store."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from harness.instance import Instance, connect, open_instance
from harness.ports import free_port
from harness.waiting import eventually
from ramet.archive.object_store import Bucket
from ramet.backends.local.off_host.shipping import switch_segment
from ramet.machine.installation import find_installations
from tests.recovery.archives import entries

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def ready(instance: Instance, service_id: str) -> dict[str, Any]:
    path = f"/services/{service_id}"
    eventually(lambda: instance.ask("GET", path)["status"] == "READY", f"{service_id} READY", 0.1)
    found: dict[str, Any] = instance.ask("GET", path)
    return found


class Lost:
    """What was known of a machine before it was lost."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.passwords: dict[str, str] = {}
        self.ids: dict[str, str] = {}

    def create(self, name: str) -> None:
        key = {"Idempotency-Key": f"key-of-{name}"}
        made = request(self.instance, "POST", "/services", {"name": name, "environment_tag": "PROD"}, key)
        self.ids[name], self.passwords[name] = made["service_id"], made["initial_password"]
        ready(self.instance, self.ids[name])

    def port(self, name: str) -> int:
        return int(self.instance.ask("GET", f"/services/{self.ids[name]}")["endpoint"]["port"])

    def connect(self, port: int | None = None, **parameters: str) -> "psycopg.Connection[tuple[Any, ...]]":
        """Open a session in the shop, of the lost machine or at another port, with the password from before."""
        return connect(self.port("shop") if port is None else port, self.passwords["shop"], **parameters)

    def await_archived(self, bucket: Bucket, name: str = "shop", *, paused: bool = False) -> None:
        """Wait until the archive has all of a service, and the catalogue its state."""
        self.instance.await_archived(self.ids[name])
        eventually(
            lambda: (name, paused) in [(each.name, each.paused) for each in entries(bucket)], "the catalogue", 0.2
        )


def request(instance: Instance, method: str, path: str, body: object, headers: dict[str, str]) -> Any:
    """Send a request with headers."""
    key = instance.credentials
    url, auth = f"{key['base_url']}/projects/{key['project_id']}{path}", (key["public_key"], key["secret_key"])
    answer = httpx.request(method, url, json=body, headers=headers, auth=auth, timeout=250, trust_env=False)
    assert answer.status_code < 300, answer.text
    return answer.json()


@pytest.fixture
def machines(bucket: Bucket) -> Iterator[tuple[Instance, Instance]]:
    """Two machines with the same object store."""
    variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    with ExitStack() as stack:
        first, second = (stack.enter_context(open_instance()) for _ in range(2))
        first.environment.update(variables | {"RAMET_ARCHIVE_URL": bucket.url})
        second.environment.update(variables)
        yield first, second


def lose(instance: Instance) -> None:
    """Kill all processes, and remove every file."""
    root = instance.root
    instance.remove()
    root.mkdir()  # the fixture removes it again


def recover(instance: Instance, bucket: Bucket, *options: str) -> "subprocess.CompletedProcess[str]":
    return instance.run("recover", "--data", str(instance.data), "--from", bucket.url, "-o", "json", *options)


def recovered(answer: "subprocess.CompletedProcess[str]") -> dict[str, dict[str, Any]]:
    assert answer.returncode == 0, answer.stderr
    return {one["name"]: one for one in json.loads(answer.stdout)["services"]}


def up_again(instance: Instance, bucket: Bucket, key: dict[str, str]) -> None:
    """Run a recovered machine, and send its requests with an API key of the lost one."""
    instance.environment["RAMET_ARCHIVE_URL"] = bucket.url
    instance.port = free_port()  # the one from before the recovery may be taken by now
    instance.up()
    instance.credentials_file.write_text(json.dumps(key | {"base_url": instance.credentials["base_url"]}))


def saved_key(instance: Instance, directory: Path) -> Path:
    shown = instance.run("archive", "key", "--data", str(instance.data))
    path = directory / "archive.key"
    path.write_text(shown.stdout)
    return path


def test_everything_comes_back_on_another_machine(
    machines: tuple[Instance, Instance], bucket: Bucket, tmp_path: Path
) -> None:
    first, second = machines
    first.up()
    lost = Lost(first)
    for name in ("shop", "paused"):
        lost.create(name)
    shop = f"/services/{lost.ids['shop']}"
    inserted = fill(lost)
    restore_after_a_mistake(first, lost)
    endpoints = extend(first, shop)
    pause(first, lost.ids["paused"])
    for name in lost.ids:
        lost.await_archived(bucket, name, paused=name == "paused")
    key, credentials = saved_key(first, tmp_path), first.credentials
    before = {name: first.ask("GET", f"/services/{service_id}") for name, service_id in lost.ids.items()}
    authority = (first.data / "secrets" / "ca.crt").read_bytes()
    lose(first)
    lost_at = datetime.now(UTC)

    answer = recover(second, bucket, "--all", "--take-over", "--archive-key-file", str(key))
    ended = recovered(answer)
    assert {name: one["status"] for name, one in ended.items()} == {"shop": "READY", "paused": "PAUSED"}
    assert "Download from the archive" in answer.stderr
    assert all(one["downloaded_bytes"] > 1_000_000 for one in ended.values())
    up_again(second, bucket, credentials)
    for name, was in before.items():
        found = second.ask("GET", f"/services/{was['service_id']}")
        same = ("service_id", "name", "endpoint", "created", "environment_tag", "status", "resources")
        assert {field: found.get(field) for field in same} == {field: was.get(field) for field in same}, name
    assert second.ask("GET", f"{shop}/restoreWindow")["window_days"] == 3
    (stored,) = second.rows("SELECT archive_gaps FROM service WHERE id = ?", lost.ids["shop"])
    (gap,) = json.loads(stored[0])
    assert inserted < datetime.fromisoformat(gap["begins_at"]) < lost_at < datetime.fromisoformat(gap["ends_at"])
    assert (second.data / "secrets" / "ca.crt").read_bytes() == authority
    assert further_endpoints(second, shop) == endpoints
    assert_clients_find_their_rows(second, lost, before["shop"]["endpoint"]["port"], endpoints)
    assert_goes_on(second, lost, before["shop"]["endpoint"]["port"])


def fill(lost: Lost) -> datetime:
    """Give the shop rows and a role of its own; return a time after that."""
    with lost.connect() as connection:
        connection.execute("CREATE TABLE entry (number int PRIMARY KEY)")
        connection.execute("INSERT INTO entry SELECT generate_series(1, 1000)")
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'a password of a tenant'")
        connection.execute("GRANT SELECT ON entry TO reader")
    return datetime.now(UTC)


def extend(instance: Instance, service: str) -> tuple[int, int]:
    """Give a service a login, a shorter window, a pooler and read replicas; return the ports of these."""
    instance.ask("POST", f"{service}/logins", {})
    instance.ask("PUT", f"{service}/restoreSettings", {"window_days": 3})
    instance.ask("POST", f"{service}/enablePooler")
    reports = {"name": "reports", "nodes": 1, "cpu_millis": 500, "memory_gbs": 1}
    instance.ask("POST", f"{service}/replicaSets", reports)
    return further_endpoints(instance, service)


def pause(instance: Instance, service_id: str) -> None:
    """Stop a service that has been archived."""
    instance.await_archived(service_id)
    instance.ask("POST", f"/services/{service_id}/stop")
    eventually(lambda: instance.ask("GET", f"/services/{service_id}")["status"] == "PAUSED", "PAUSED", 0.1)


def assert_clients_find_their_rows(instance: Instance, lost: Lost, port: int, endpoints: tuple[int, int]) -> None:
    """Connect as the clients of the shop did: at its endpoints, with its passwords and its certificate authority."""
    verifying = {"sslmode": "verify-ca", "sslrootcert": str(instance.data / "secrets" / "ca.crt")}
    with lost.connect(port, **verifying) as connection:
        assert connection.execute("SELECT count(*), sum(number) FROM entry").fetchone() == (1000, 500_500)
        assert connection.execute("SELECT FROM pg_roles WHERE starts_with(rolname, 'ramet_login_')").fetchall() == []
    with connect(port, "a password of a tenant", user="reader") as connection:
        assert connection.execute("SELECT count(*) FROM entry").fetchone() == (1000,)
    for endpoint in endpoints:
        with lost.connect(endpoint) as connection:
            assert connection.execute("SELECT count(*) FROM entry").fetchone() == (1000,)


def assert_goes_on(instance: Instance, lost: Lost, port: int) -> None:
    """Repeat the request that made the shop, and write to it: the archive continues."""
    body = {"name": "shop", "environment_tag": "PROD"}
    again = request(instance, "POST", "/services", body, {"Idempotency-Key": "key-of-shop"})
    assert (again["service_id"], again["initial_password"]) == (lost.ids["shop"], lost.passwords["shop"])
    with lost.connect(port) as connection:
        connection.execute("INSERT INTO entry VALUES (1001)")
    instance.await_archived(lost.ids["shop"])
    assert problem_of(instance, lost) is None
    instance.await_idle()
    assert instance.leftovers() == []


def problem_of(instance: Instance, lost: Lost) -> str | None:
    """Return what is wrong with the archive of the shop."""
    found: str | None = instance.ask("GET", f"/services/{lost.ids['shop']}/archive")["problem"]
    return found


def restore_after_a_mistake(instance: Instance, lost: Lost) -> None:
    """Lose rows in a service whose archive has begun, and restore it in place: what comes back has them again."""
    shop = lost.ids["shop"]
    instance.await_archived(shop)
    good = datetime.now(UTC)
    with lost.connect() as connection:
        connection.execute("DELETE FROM entry")
    with instance.client() as client:
        begun = client.restore_service(shop, target_time=good.isoformat(), keep_previous=False, confirm="shop")
        assert client.wait_restored(shop, begun.restore_id).error is None
        client.wait_ready(shop)


def further_endpoints(instance: Instance, service: str) -> tuple[int, int]:
    """Wait until the pooler and the read replica set of a service are there; return their ports."""

    def are_there() -> bool:
        found, sets = instance.ask("GET", service), instance.ask("GET", f"{service}/replicaSets")
        return "connection_pooler" in found and [each["status"] for each in sets] == ["active"]

    eventually(are_there, "the pooler and the read replicas", 0.2)
    found, sets = instance.ask("GET", service), instance.ask("GET", f"{service}/replicaSets")
    return found["connection_pooler"]["endpoint"]["port"], sets[0]["endpoint"]["port"]


def killed_in_the_middle(instance: Instance, bucket: Bucket, key: Path) -> str:
    """Start a recovery and kill it in a step; return the step."""
    options = ["--from", bucket.url, "--all", "--take-over", "--archive-key-file", str(key)]
    words = [*instance.program, "recover", "--data", str(instance.data), *options]
    environment = os.environ | {"HOME": str(instance.root)} | instance.environment
    with (instance.root / "killed.log").open("wb") as log:
        process = subprocess.Popen(words, env=environment, stdout=log, stderr=log)

        def is_under_way() -> bool:
            assert process.poll() is None, (instance.root / "killed.log").read_text()
            return "Create the volume" in (instance.root / "killed.log").read_text()

        try:
            eventually(is_under_way, "the recovery", 0.005)
        finally:
            process.kill()
            process.wait()
    (step,) = instance.steps("procedure = 'recover'")
    assert step.status == "RUNNING"
    return step.step


def test_a_recovery_is_refused_continued_and_then_refuses_the_lost_machine(
    machines: tuple[Instance, Instance], bucket: Bucket, tmp_path: Path
) -> None:
    """What is refused before anything is made is in test_refusals.py."""
    first, second = machines
    first.up()
    lost = Lost(first)
    lost.create("shop")
    with lost.connect() as connection:
        connection.execute("CREATE TABLE entry AS SELECT 1 AS number")
    lost.await_archived(bucket)
    key, port, credentials = saved_key(first, tmp_path), lost.port("shop"), first.credentials
    taken = recover(second, bucket, "--all", "--archive-key-file", str(key), "--take-over")
    assert (taken.returncode, f"{port} (shop)" in taken.stderr) == (3, True)  # the lost machine still runs
    assert problem_of(first, lost) is None

    assert first.down() == 0
    assert killed_in_the_middle(second, bucket, key) in ("capture", "recover", "boot")
    ended = recovered(recover(second, bucket, "--all", "--archive-key-file", str(key)))
    assert [(one["service_id"], one["status"], one["port"]) for one in ended.values()] == [
        (lost.ids["shop"], "READY", port)
    ]
    assert rows(lost, port) == [(1,)]
    assert recovered(recover(second, bucket, "shop"))["shop"]["status"] == "READY"
    assert len(second.steps("procedure = 'recover'")) == 1
    assert second.run("down", "--data", str(second.data)).returncode == 0

    first.up()
    assert_writes_nothing(first, lost, bucket)
    assert first.down() == 0
    up_again(second, bucket, credentials)
    assert rows(lost, port) == [(1,)]
    second.await_archived(lost.ids["shop"])
    assert problem_of(second, lost) is None


def rows(lost: Lost, port: int) -> list[tuple[int]]:
    """Return the rows of the shop at a port."""
    with lost.connect(port) as connection:
        return connection.execute("SELECT number FROM entry").fetchall()


def assert_writes_nothing(instance: Instance, lost: Lost, bucket: Bucket) -> None:
    """See that a machine that was replaced leaves the archive alone, and says what to do."""

    def says_what_to_do() -> bool:
        return "If this machine was replaced, stop its services" in str(problem_of(instance, lost))

    eventually(says_what_to_do, "the refusal", 0.2)
    before = objects(bucket)
    with lost.connect() as connection:
        connection.execute("INSERT INTO entry VALUES (2)")
    switch_segment(instance.backend.instances.paths(lost.ids["shop"]))
    for _ in range(2):
        await_duties(instance, "archive", "catalogue")
    assert objects(bucket) == before


def objects(bucket: Bucket) -> set[tuple[object, ...]]:
    """Return what is in an archive."""
    places = [f"{name}/" for name in bucket.directories()]
    found = {(one.key, one.size_bytes, one.written_at) for place in places for one in bucket.objects(place)}
    return {*found, ("ramet-owner.json", bucket.read("ramet-owner.json"))}


def await_duties(instance: Instance, *names: str) -> None:
    """Wait until each duty was begun once more."""

    def due() -> dict[str, float]:
        return dict(instance.rows("SELECT name, next_at FROM duty"))

    before = due()
    eventually(lambda: all(due()[name] > before[name] for name in names), f"the duties {names}", 0.2)


def test_a_service_whose_version_is_missing_comes_back_when_it_is_installed(
    machines: tuple[Instance, Instance], bucket: Bucket, tmp_path: Path, postgresql_url: str
) -> None:
    """The store of the second machine is on PostgreSQL."""
    first, second = machines
    second.environment["RAMET_DATABASE_URL"] = postgresql_url
    major, newest = max(find_installations().by_major.items())
    first.environment["RAMET_PG_BIN"] = str(newest.bin)
    first.up()
    lost = Lost(first)
    lost.create("shop")
    lost.await_archived(bucket)
    key = saved_key(first, tmp_path)
    lose(first)

    (tmp_path / "sitecustomize.py").write_text(
        "import ramet.machine.installation as found\n"
        f"found.SUPPORTED_MAJORS = tuple(set(found.SUPPORTED_MAJORS) - {{{major}}})\n"
    )
    second.environment["PYTHONPATH"] = str(tmp_path)
    writer = bucket.read("ramet-owner.json")
    options = ("--all", "--take-over", "--archive-key-file", str(key))
    lacking = recover(second, bucket, *options)
    (refused,) = json.loads(lacking.stdout)["refused"]
    assert (lacking.returncode, refused["name"]) == (1, "shop")
    assert f"The service needs PostgreSQL {major}, which this host lacks" in refused["error"]
    assert f"Install PostgreSQL {major}" in refused["error"]
    assert bucket.read("ramet-owner.json") == writer
    del second.environment["PYTHONPATH"]
    assert recovered(recover(second, bucket, *options))["shop"]["status"] == "READY"


def test_without_the_key_a_service_comes_back_as_of_a_time_with_its_password(
    machines: tuple[Instance, Instance], bucket: Bucket, tmp_path: Path
) -> None:
    first, second = machines
    first.up()
    lost = Lost(first)
    lost.create("shop")
    first.await_archived(lost.ids["shop"])
    with lost.connect() as connection:
        connection.execute("CREATE TABLE entry AS SELECT 1 AS number")
        ((target,),) = connection.execute("SELECT clock_timestamp()").fetchall()
        connection.execute("INSERT INTO entry VALUES (2)")
    lost.await_archived(bucket)
    credentials, port = first.credentials, lost.port("shop")
    authority = (first.data / "secrets" / "ca.crt").read_bytes()

    # The lost machine still has the port.
    options = ("shop", "--take-over", "--without-key", "--to", target.isoformat(), "--new-ports")
    answer = recover(second, bucket, *options)
    ended = recovered(answer)
    assert ended["shop"]["port"] != port
    assert f"port {port} is in use here" in answer.stderr
    assert "this host has a new certificate authority" in answer.stderr
    assert (second.data / "secrets" / "ca.crt").read_bytes() != authority
    assert rows(lost, ended["shop"]["port"]) == [(1,)]
    up_again(second, bucket, credentials)
    assert second.ask("GET", f"/services/{lost.ids['shop']}")["name"] == "shop"
