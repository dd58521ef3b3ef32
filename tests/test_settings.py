"""Where settings come from, and what is refused."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from ramet.errors import Failed, Invalid
from ramet.settings import Settings, describe_settings, load_settings, make_data_dir


def test_a_variable_overrides_the_default_and_an_option_overrides_both() -> None:
    assert load_settings({}).port == 8080
    assert load_settings({"RAMET_PORT": "9000"}).port == 9000
    assert load_settings({"RAMET_PORT": "9000"}, port=0).port == 0


def test_the_store_is_in_the_data_directory_by_default(tmp_path: Path) -> None:
    assert load_settings({}, data_dir=tmp_path).store_url() == f"sqlite:///{tmp_path}/ramet.db"
    url = "postgresql+psycopg://ramet@db/ramet"
    assert load_settings({"RAMET_DATABASE_URL": url}, data_dir=tmp_path).store_url() == url


def test_both_ends_of_a_port_range_are_included() -> None:
    assert load_settings({"RAMET_PORT_RANGE": "20000-20001"}).port_range == range(20000, 20002)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("::", "::"),
        ("2001:DB8::7", "2001:db8::7"),
        ("127.0.0.1", "127.0.0.1"),
        ("db-1.example", "db-1.example"),
    ],
)
def test_a_host_may_be_a_name_or_an_address_of_either_version(text: str, host: str) -> None:
    assert load_settings({"RAMET_HOST": text}).host == host
    assert load_settings({}, endpoint_host=text).endpoint_host == host


@pytest.mark.parametrize("text", ["a:b", ":::", "[a]", "::1:", "a b"])
def test_an_invalid_host_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="a host name or an address"):
        load_settings({"RAMET_HOST": text})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RAMET_PORT", "70000"),
        ("RAMET_PORT", "-1"),
        ("RAMET_PORT", "٣"),
        ("RAMET_PORT_RANGE", "15432"),
        ("RAMET_PORT_RANGE", "16000-15000"),
        ("RAMET_PORT_RANGE", "80-90"),
        ("RAMET_STORAGE_DRIVER", "zfs"),
        ("RAMET_REGION_CODE", "Up There"),
        ("RAMET_ENDPOINT_HOST", "a b"),
        ("RAMET_LIMITS", "maybe"),
        ("RAMET_WORKER_THREADS", "0"),
        ("RAMET_LOG_LEVEL", "loud"),
        ("RAMET_DATA_DIR", "/dev/null"),
    ],
)
def test_an_invalid_value_is_refused_with_its_variable_value_and_remedy(variable: str, value: str) -> None:
    with pytest.raises(Invalid) as caught:
        load_settings({variable: value})
    assert variable in caught.value.message
    assert value in caught.value.message
    assert "must" in caught.value.message


def test_an_invalid_option_is_refused_by_its_name() -> None:
    with pytest.raises(Invalid, match="--port-range"):
        load_settings({}, port_range="all")


def test_the_password_in_a_database_url_is_never_shown() -> None:
    with pytest.raises(Invalid) as caught:
        load_settings({"RAMET_DATABASE_URL": "mysql://ramet:hunter2@db"})
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(load_settings({"RAMET_DATABASE_URL": "postgresql+psycopg://ramet:hunter2@db/x"}))


@pytest.mark.parametrize(
    "rest",
    [
        *("ramet:hun@ter2@db/ramet", "ramet:hun@ter:2@db:5432/ramet", "ramet:x@db:hunter2/r"),
        *("ramet@corp:hunter2@db/r", "ramet:hunter2/ramet", "ramet:hunter2", "ramet:hunter2?host=/tmp"),
        "ramet:123456/ramet",  # no port has six digits
    ],
)
def test_a_database_url_with_an_unescaped_password_or_without_its_host_is_refused_without_it(rest: str) -> None:
    with pytest.raises(Invalid, match=r"in whose user and password @ is written as %40 \(got \*\*\*\)") as caught:
        load_settings({"RAMET_DATABASE_URL": f"postgresql+psycopg://{rest}"})
    assert not re.search("hun|123", str(caught.value))


@pytest.mark.parametrize(
    "rest",
    [
        *(
            "ramet@db/ramet",
            "ramet%40corp:hunter2@db/r",
            "ramet:p%40ss:word@db:5432/ramet",
            "ramet@[::1]:5432/ramet",
            "db:5432/ramet",
            "db",
        ),
        *("/ramet?host=/var/run/postgresql", "ramet@/ramet?host=/tmp", "ramet:a@db/ramet?options=-c%20x&user=a@b"),
    ],
)
def test_database_urls_of_every_form_are_accepted(rest: str) -> None:
    url = f"postgresql+psycopg://{rest}"
    assert load_settings({"RAMET_DATABASE_URL": url}).database_url == url


@pytest.mark.parametrize("directory", [Path("/proc/x"), Path("/etc/passwd/x"), Path("/tmp", "x" * 300)], ids=str)
def test_a_data_directory_that_cannot_be_made_is_named(directory: Path) -> None:
    with pytest.raises(Failed, match=f"^The data directory {directory} cannot be made: "):
        make_data_dir(directory)


@pytest.mark.parametrize("value", ["/tmp/" + "x" * 300, "~nobody-has-this-name/x"], ids=["too long", "no such user"])
def test_a_name_that_no_directory_can_have_is_refused(value: str) -> None:
    with pytest.raises(Invalid, match="RAMET_DATA_DIR must be a directory"):
        load_settings({"RAMET_DATA_DIR": value})


def test_a_user_without_a_home_directory_names_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr("os.geteuid", lambda: 54321)
    with pytest.raises(Invalid, match=r"54321 has no home directory.*--data"):
        load_settings({})
    assert load_settings({"RAMET_DATA_DIR": str(tmp_path)}).data_dir == tmp_path


def test_every_setting_is_described() -> None:
    described = describe_settings()
    assert set(described) == {one.name for one in fields(Settings)}
    assert all(one.variable.startswith("RAMET_") and one.meaning for one in described.values())
    assert (described["has_limits"].variable, described["port_range"].default) == ("RAMET_LIMITS", "15432-16431")
