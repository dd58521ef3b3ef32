"""The key that `ramet up` creates for its user."""

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import msgspec
import pytest

from ramet.app import Runtime
from ramet.cli.host import bootstrap_credentials, running
from ramet.cli.host.bootstrap_credentials import ensure_credentials, ensure_user_credentials
from ramet.cli.user_files.credentials import Credentials, config_path, read_credentials, write_credentials
from ramet.cli.user_files.files import changing
from ramet.control.plane import utc_now
from ramet.control.projects import Projects
from ramet.model.passwords import Secret
from ramet.model.rights import Role
from ramet.store.database import Store

URL = "http://127.0.0.1:1/public/api/v1"


@pytest.fixture
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Projects]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    store = Store.open(f"sqlite:///{tmp_path}/ramet.db")
    yield Projects(store)
    store.close()


def _read(path: Path) -> Credentials:
    found = read_credentials(path)
    assert found is not None
    return found


def test_the_first_start_creates_a_project_and_a_valid_key(projects: Projects, tmp_path: Path) -> None:
    ensure_credentials(projects, URL, tmp_path / "a.json")
    made = _read(tmp_path / "a.json")
    assert [project.id for project in projects.list_projects()] == [made.project_id]
    assert projects.authenticate(made.public_key, Secret(made.secret_key)).project_id == made.project_id


def test_a_valid_key_is_kept_with_the_new_address(projects: Projects, tmp_path: Path) -> None:
    ensure_credentials(projects, URL, tmp_path / "a.json")
    first = _read(tmp_path / "a.json")
    ensure_credentials(projects, "http://127.0.0.1:2/public/api/v1", tmp_path / "a.json")
    again = _read(tmp_path / "a.json")
    assert (again.public_key, again.base_url) == (first.public_key, "http://127.0.0.1:2/public/api/v1")


def test_a_pipe_is_written_and_not_read(projects: Projects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR)

    def start() -> None:
        ensure_user_credentials(projects, URL, ensure_credentials(projects, URL, pipe))
        running._console_link(cast("Runtime", None), pipe)

    starting = threading.Thread(target=start, daemon=True)
    starting.start()
    starting.join(20)
    waits = starting.is_alive()
    os.write(end, b"\n")
    assert not waits
    assert msgspec.json.decode(os.read(end, 65536))["base_url"] == URL
    assert _read(config_path()).base_url == URL
    os.close(end)


def test_a_pipe_gets_the_same_key_at_each_start(projects: Projects, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR)
    printed = []
    for address in (URL, URL, "http://127.0.0.1:2/public/api/v1"):
        ensure_user_credentials(projects, address, ensure_credentials(projects, address, pipe))
        printed.append(msgspec.json.decode(os.read(end, 65536), type=Credentials))
    os.close(end)
    assert printed[0] == printed[1]
    assert printed[2] == _read(config_path())
    assert [key.public_key for key in projects.list_keys(printed[0].project_id)] == [printed[2].public_key]


@pytest.mark.parametrize(
    ("project", "role"), [("default", Role.VIEWER), ("default", Role.DEVELOPER), ("other", Role.ADMIN)]
)
def test_a_pipe_gets_a_key_of_an_admin_of_the_first_project_whatever_the_user_has(
    projects: Projects, tmp_path: Path, project: str, role: Role
) -> None:
    known = {name: projects.create_project(name, utc_now()).id for name in ("default", "other")}
    key, secret = projects.create_key(known[project], "mine", utc_now(), role=role)
    own = Credentials(URL, known[project], key.public_key, secret.reveal())
    write_credentials(config_path(), own)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR)
    made = ensure_credentials(projects, URL, pipe)
    ensure_user_credentials(projects, URL, made)
    printed = msgspec.json.decode(os.read(end, 65536), type=Credentials)
    os.close(end)
    opened = projects.authenticate(printed.public_key, Secret(printed.secret_key))
    assert (opened.project_id, opened.role) == (known["default"], Role.ADMIN)
    assert _read(config_path()) == own


@pytest.mark.parametrize("content", ["broken", '{"base_url":"x","project_id":"y","public_key":"z","secret_key":"w"}'])
def test_invalid_credentials_are_replaced(projects: Projects, tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    ensure_credentials(projects, URL, tmp_path / "a.json")
    made = _read(tmp_path / "a.json")
    assert projects.authenticate(made.public_key, Secret(made.secret_key)).project_id == made.project_id


def test_a_second_key_is_for_the_same_project(projects: Projects, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        ensure_credentials(projects, URL, tmp_path / name)
    assert _read(tmp_path / "a.json").project_id == _read(tmp_path / "b.json").project_id


def test_credentials_of_another_ramet_in_the_users_own_file_are_kept(projects: Projects, tmp_path: Path) -> None:
    given = tmp_path / "given.json"
    made = ensure_credentials(projects, URL, given)
    ensure_user_credentials(projects, URL, made)
    assert _read(config_path()) == _read(given) == made
    ensure_user_credentials(projects, "http://moved", made)
    assert _read(config_path()).base_url == "http://moved"
    other = Credentials("http://elsewhere", "p", "k", "s")
    write_credentials(config_path(), other)
    ensure_user_credentials(projects, URL, made)
    assert _read(config_path()) == other


def test_a_home_directory_that_cannot_be_written_is_only_logged(
    projects: Projects, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    project = projects.create_project("there", utc_now())
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/nowhere")
    ensure_user_credentials(projects, URL, None)
    assert "no credentials were saved" in caplog.text
    assert projects.list_projects() == [project]
    assert projects.list_keys(project.id) == []


@pytest.mark.parametrize("is_named", [False, True])
def test_a_home_directory_that_cannot_be_read_is_only_logged(
    projects: Projects,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_named: bool,
) -> None:
    given = ensure_credentials(projects, URL, tmp_path / "given.json") if is_named else None
    monkeypatch.setenv("XDG_CONFIG_HOME", f"/{256 * 'x'}")  # like one without permission, also for root
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ensure_user_credentials(projects, URL, given)
    assert "no credentials were saved" in caplog.text
    assert running._console_link(cast("Runtime", None), config_path()) == "/console"


def test_two_ramets_started_in_turns_keep_their_keys(
    projects: Projects, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "other").mkdir()
    store = Store.open(f"sqlite:///{tmp_path}/other/ramet.db")
    others = Projects(store)
    seen = []
    for _ in range(3):
        for ramet in (projects, others):
            ensure_user_credentials(ramet, URL, None)
            seen.append(_read(config_path()))
    [mine, theirs] = [[key.public_key for key in r.list_keys(r.list_projects()[0].id)] for r in (projects, others)]
    store.close()
    assert [one.public_key for one in seen] == [*mine, *theirs] * 3
    aside = config_path().with_name(f"credentials-{seen[0].public_key}.json")
    assert _read(aside) == seen[0]
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert str(aside) in caplog.text
    assert {path.name for path in aside.parent.glob("*.json")} == {"credentials.json", aside.name}


def test_a_key_that_another_first_start_has_made_since_is_kept(
    projects: Projects, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_credentials(config_path(), Credentials("http://elsewhere", "p", "k", "s"))
    made = []

    @contextmanager
    def changing_later(path: Path) -> Iterator[None]:
        monkeypatch.setattr(bootstrap_credentials, "changing", changing)
        ensure_user_credentials(projects, URL, None)
        made.append(_read(path))
        with changing(path):
            yield

    monkeypatch.setattr(bootstrap_credentials, "changing", changing_later)
    ensure_user_credentials(projects, URL, None)
    assert [_read(config_path())] == made
    assert len(projects.list_keys(made[0].project_id)) == 1
    assert not config_path().with_name(f"credentials-{made[0].public_key}.json").exists()


def test_a_key_with_any_name_is_put_aside(projects: Projects) -> None:
    other = Credentials("http://elsewhere", "p", "../k/", "s")
    write_credentials(config_path(), other)
    ensure_user_credentials(projects, URL, None)
    assert _read(config_path().with_name("credentials-___k_.json")) == other
    assert _read(config_path()).base_url == URL


@pytest.mark.parametrize(("role", "has_own_name"), [(Role.ADMIN, True), (Role.VIEWER, False)])
def test_a_file_that_was_not_put_aside_stays_the_users(projects: Projects, role: Role, has_own_name: bool) -> None:
    project = projects.create_project("default", utc_now())
    key, secret = projects.create_key(project.id, "ci", utc_now(), role=role)
    users = config_path().with_name(f"credentials-{'ci' if has_own_name else key.public_key}.json")
    own = Credentials(URL, project.id, key.public_key, secret.reveal())
    write_credentials(users, own)
    ensure_user_credentials(projects, URL, None)
    assert _read(users) == own
    made = _read(config_path())
    assert made.public_key != key.public_key
    assert projects.authenticate(made.public_key, Secret(made.secret_key)).role is Role.ADMIN


def test_a_file_that_is_incomplete_or_unreadable_is_kept(projects: Projects, caplog: pytest.LogCaptureFixture) -> None:
    path = config_path()
    path.parent.mkdir(parents=True)
    contents = ['{"public_key": "k", "secret_key": "s"}', "{"]
    for content in contents:
        path.write_text(content)
        ensure_user_credentials(projects, URL, None)
        assert _read(path).base_url == URL
    kept = [path.with_name(f"credentials.json.kept-{n}") for n in (1, 2)]
    assert [one.read_text() for one in kept] == contents
    assert all(str(one) in caplog.text for one in kept)
