"""Projects and keys as rows."""

from datetime import timedelta

from msgspec.structs import replace

from ramet.ids import new_id
from ramet.model.keys import ApiKey
from ramet.model.project import Project
from ramet.store import keys, projects
from ramet.store.database import Store
from tests.store.values import NOW, a_project


def test_projects_come_back_as_they_were_oldest_first(store: Store) -> None:
    later, first = Project(new_id(), "b", NOW + timedelta(microseconds=1)), Project(new_id(), "a", NOW)
    with store.write() as tx:
        for project in (later, first):
            projects.insert_project(tx, project)
    with store.read() as tx:
        assert projects.list_projects(tx) == [first, later]
        assert projects.get_project(tx, later.id) == later
        assert projects.get_project(tx, new_id()) is None


def test_a_key_belongs_to_one_project_and_is_revoked_once(store: Store) -> None:
    with store.write() as tx:
        project, other = a_project(tx), a_project(tx)
        key = ApiKey("RK1", project.id, "ci", "digest", NOW)
        keys.insert_key(tx, key)
        keys.revoke_key(tx, "RK1", NOW + timedelta(hours=1))
        keys.revoke_key(tx, "RK1", NOW + timedelta(hours=2))
    with store.read() as tx:
        assert keys.list_keys(tx, other.id) == []
        assert keys.list_keys(tx, project.id) == [replace(key, revoked_at=NOW + timedelta(hours=1))]
        assert keys.find_key(tx, "RK2") is None
