"""What is done with a source whose answers are not what was asked for."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.local.followers import examine as followers
from ramet.backends.local.followers.followers import LocalFollowers
from ramet.backends.local.host.paths import Layout
from ramet.backends.local.server.standby import source_directory
from ramet.backends.local.sources import sources
from ramet.backends.local.sources.vault import Vault
from ramet.backends.local.subscriptions.subscriptions import LocalSubscriptions, directory_of
from ramet.errors import Invalid
from ramet.model.passwords import Secret
from tests.imports.odd_source import NUMBER, TEXT, odd_source

ANSWERS = pytest.mark.parametrize(
    ("oid", "value", "words"),
    [(NUMBER, b"many", "many"), (TEXT, b"caf\xe9", r"it answered with a text that is not valid UTF-8: caf\xe9")],
    ids=["no number", "not UTF-8"],
)


def kept(directory: Path, file: str, vault: Vault, source: SourceAddress) -> None:
    directory.mkdir(parents=True)
    (directory / file).write_bytes(msgspec.json.encode({"source": source, "sealed": vault.seal(Secret("x"))}))


@ANSWERS
@pytest.mark.parametrize("by", ["import", "physical", "logical"])
def test_a_source_that_answers_what_cannot_be_read_is_refused_with_that_reason(
    tmp_path: Path, by: str, oid: int, value: bytes, words: str
) -> None:
    subscriptions = LocalSubscriptions(None, Vault(tmp_path / "key"))  # type: ignore[arg-type]
    examine = {"import": sources.examine, "physical": followers.examine, "logical": subscriptions.examine}[by]
    with (
        odd_source(oid, value) as source,
        pytest.raises(Invalid, match=f"could not be examined: .*{re.escape(words)}") as refused,
    ):
        examine(source, Secret("x"))
    assert refused.value.code == "SOURCE_UNREADABLE"


@ANSWERS
def test_a_deletion_says_what_stays_whatever_the_source_of_its_subscription_answers(
    tmp_path: Path, oid: int, value: bytes, words: str
) -> None:
    instances: Any = SimpleNamespace(paths=Layout(tmp_path / "services", tmp_path / "sockets").service)
    subscriptions = LocalSubscriptions(instances, Vault(tmp_path / "key"))
    directory = directory_of(instances.paths("s1"))
    with odd_source(oid, value) as source:
        kept(directory, "source.json", subscriptions.vault, source)
        left = [subscriptions.discard("s1") for _ in range(2)]
    assert [words in (warning or "") for warning in left] == [True, True]


@ANSWERS
def test_a_slot_stays_with_a_warning_whatever_its_source_answers(
    tmp_path: Path, oid: int, value: bytes, words: str
) -> None:
    """The warning comes again until it is recorded, and the password is forgotten."""
    instances: Any = SimpleNamespace(paths=Layout(tmp_path / "services", tmp_path / "sockets").service, account=None)
    pool: Any = SimpleNamespace(driver=SimpleNamespace(remove_tree=lambda _path: None))
    standbys = LocalFollowers(instances, pool, Vault(tmp_path / "key"))
    standbys.__dict__["jobs"] = SimpleNamespace(end=lambda _paths: None)
    directory = source_directory(instances.paths("s1"))
    with odd_source(oid, value) as source:
        kept(directory, "slot.json", standbys.vault, source)
        left = [standbys.discard("s1") for _ in range(2)]
    assert [words in (warning or "") for warning in left] == [True, True]
    standbys.forget("s1")
    assert not directory.exists()
    assert standbys.discard("s1") is None
