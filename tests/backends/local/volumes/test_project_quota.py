"""Which files get the project of a service; the kernel's part is tested in test_quotas, where it has these projects."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ramet.backends.local.volumes import project_quota
from ramet.backends.local.volumes.project_quota import ProjectQuotas, project_of
from ramet.backends.local.volumes.quota import Place

Projects = dict[Path, int]


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.fixture
def projects(monkeypatch: pytest.MonkeyPatch) -> Projects:
    """The project of each path, instead of the file system's."""
    found: Projects = {}

    def set_project(path: Path, project: int, *, inherited: bool) -> None:
        found[path] = project

    monkeypatch.setattr(project_quota, "set_project", set_project)
    monkeypatch.setattr(project_quota, "attributes", lambda path: (True, found.get(path, 0)))
    return found


@pytest.fixture
def quotas(tmp_path: Path) -> ProjectQuotas:
    return ProjectQuotas(tmp_path, 1)


def _place(tmp_path: Path, name: str) -> Place:
    root = tmp_path / name
    (root / "data" / "base").mkdir(parents=True)
    for file in ("PG_VERSION", "base/1"):
        (root / "data" / file).touch()
    return Place(root, root / "data", root / "snapshots")


def _killed_at(number: int, run: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run until the project of one more than `number` paths is set."""
    assign, left = project_quota.set_project, iter(range(number))

    def set_project(path: Path, project: int, *, inherited: bool) -> None:
        if next(left, None) is None:
            raise Killed
        assign(path, project, inherited=inherited)

    with monkeypatch.context() as patch:
        patch.setattr(project_quota, "set_project", set_project)
        with pytest.raises(Killed):
            run()


def _in_data(projects: Projects, place: Place) -> set[int]:
    return {projects[path] for path in (place.data, *place.data.rglob("*"))}


def test_data_that_an_exchange_took_and_did_not_move_is_given_back(
    tmp_path: Path, projects: Projects, quotas: ProjectQuotas
) -> None:
    service, previous = _place(tmp_path, "service"), _place(tmp_path, "p")
    quotas.enclose(service)
    quotas.adopt(previous, service.data)
    assert _in_data(projects, service) == {project_of("p")}
    quotas.enclose(service)
    assert _in_data(projects, service) == {project_of("service")}


@pytest.mark.parametrize("taken", [1, 2, 3])
@pytest.mark.parametrize("given", [1, 2, 3])
def test_it_is_given_back_whole_also_when_both_were_killed_on_their_way(
    tmp_path: Path, projects: Projects, quotas: ProjectQuotas, monkeypatch: pytest.MonkeyPatch, taken: int, given: int
) -> None:
    service, previous = _place(tmp_path, "service"), _place(tmp_path, "p")
    quotas.enclose(service)
    _killed_at(taken, lambda: quotas.adopt(previous, service.data), monkeypatch)
    _killed_at(given, lambda: quotas.enclose(service), monkeypatch)
    quotas.enclose(service)
    assert _in_data(projects, service) == {project_of("service")}


def test_a_service_without_data_is_enclosed_once(
    tmp_path: Path, projects: Projects, quotas: ProjectQuotas, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new" / "log").mkdir(parents=True)
    place = Place(tmp_path / "new", tmp_path / "new/data", tmp_path / "new/snapshots")
    quotas.enclose(place)
    assert projects == {place.root / "log": project_of("new"), place.root: project_of("new")}
    monkeypatch.setattr(project_quota, "set_project", None)
    quotas.enclose(place)
