"""Links that sign in once, in whichever process they are opened."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from ramet.control.plane import utc_now
from ramet.control.projects import Projects
from ramet.control.sign_in_links import LINK_LIFE, SignInLinks
from ramet.model.keys import ApiKey
from ramet.store.database import Store
from ramet.store.tables import sign_in_link

_NOW = utc_now()


@pytest.fixture(name="key")
def _key(store: Store) -> ApiKey:
    projects = Projects(store, lambda: _NOW)
    return projects.create_key(projects.create_project("demo", _NOW).id, "first", _NOW)[0]


def _at(after: timedelta) -> Callable[[], datetime]:
    return lambda: _NOW + after


def test_a_link_works_once_and_in_another_process(store: Store, key: ApiKey) -> None:
    links, others = SignInLinks(store, lambda: _NOW), SignInLinks(store, lambda: _NOW)
    token = links.make(key)
    assert others.use(token) == key
    assert (links.use(token), others.use(token), links.use("guessed")) == (None, None, None)


def test_of_those_who_open_a_link_at_once_one_is_let_in(store: Store, key: ApiKey) -> None:
    links = [SignInLinks(store, lambda: _NOW) for _ in range(4)]
    token = links[0].make(key)
    with ThreadPoolExecutor(4) as pool:
        used = list(pool.map(lambda one: one.use(token), links))
    assert sorted(used, key=bool) == [None, None, None, key]


@pytest.mark.parametrize("after", [LINK_LIFE, -2 * LINK_LIFE], ids=["expired", "made by a clock far ahead"])
def test_a_link_works_for_an_hour(store: Store, key: ApiKey, after: timedelta) -> None:
    early, late = (SignInLinks(store, lambda: _NOW).make(key) for _ in range(2))
    assert SignInLinks(store, _at(LINK_LIFE - timedelta(seconds=1))).use(early) == key
    assert SignInLinks(store, _at(after)).use(late) is None


def test_expired_links_are_removed_and_no_token_is_stored(store: Store, key: ApiKey) -> None:
    SignInLinks(store, lambda: _NOW).make(key)
    token = SignInLinks(store, _at(LINK_LIFE)).make(key)
    with store.read() as tx:
        (row,) = tx.execute(sa.select(sign_in_link))
    assert token not in str(row)


def test_a_link_keeps_the_secret_that_it_was_made_with(store: Store, key: ApiKey) -> None:
    links = SignInLinks(store, lambda: _NOW)
    token = links.make(key)
    Projects(store, lambda: _NOW).rotate_key(key.project_id, key.public_key, 0, _NOW)
    used = links.use(token)
    assert used is not None
    assert used.secret_digest == key.secret_digest
