"""`ramet project`: it opens the store of a data directory, so it needs no key itself."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
from msgspec import UNSET, UnsetType

from ramet.acting import acting, on_host
from ramet.cli.host import instance
from ramet.cli.host.data_dir import existing_data_dir
from ramet.cli.ui.durations import Duration, local_time
from ramet.cli.ui.options import LimitOrNone, data_option, find_named, output_option
from ramet.cli.ui.output import print_pairs, print_result, print_rows, say
from ramet.configured import open_store
from ramet.control.plane import utc_now
from ramet.control.projects import Projects
from ramet.endpoints import base_url
from ramet.errors import Invalid
from ramet.model.project import Project
from ramet.redaction import shown_fields
from ramet.settings import load_settings

_UNSAID = ("output", "data_dir", "credentials_file")


@click.group("project")
def project_group() -> None:
    """Create and list projects. This works on the host of the data directory only."""


@project_group.command("list")
@output_option
@data_option
def list_projects(output: str, data_dir: Path | None) -> None:
    """List all projects.

    \b
    Example:
      ramet project list
    """
    with existing_projects(data_dir) as projects:
        found = projects.list_projects()
    rows = [(one.id, one.name, local_time(one.created_at)) for one in found]
    print_result([_project(one) for one in found], output, lambda: print_rows(("id", "name", "created"), rows))


@project_group.command("create")
@click.argument("name")
@output_option
@data_option
def create_project(name: str, output: str, data_dir: Path | None) -> None:
    """Create a project. Clients need a key to use it.

    \b
    Example:
      ramet project create analytics
    """
    with existing_projects(data_dir) as projects:
        made = projects.create_project(name, utc_now())
    print_result(_project(made), output, lambda: print_pairs([("id", made.id), ("name", made.name)]))
    if output == "table":
        say(f"To create a key: ramet key create --project {made.id}")


@project_group.command("limits")
@click.argument("project", required=False)
@click.option("--fork-ttl", type=LimitOrNone(Duration()), default=UNSET, help="Life span of forks without one.")
@click.option("--max-fork-ttl", type=LimitOrNone(Duration()), default=UNSET, help="Longest life span of a fork.")
@click.option("--max-services", type=LimitOrNone(click.INT), default=UNSET, help="Most services, forks included.")
@click.option("--max-forks", type=LimitOrNone(click.INT), default=UNSET, help="Most forks.")
@click.option("--max-cpu-millis", type=LimitOrNone(click.INT), default=UNSET, help="Most thousandths of a core in all.")
@click.option("--max-memory-gbs", type=LimitOrNone(click.INT), default=UNSET, help="Most gigabytes of memory in all.")
@click.option("--max-storage-gbs", type=LimitOrNone(click.INT), default=UNSET, help="Most gigabytes on disk in all.")
@click.option("--fork-sleep-after", type=LimitOrNone(Duration()), default=UNSET, help="When unused forks fall asleep.")
@output_option
@data_option
def project_limits(
    project: str | None,
    fork_ttl: int | UnsetType | None,
    max_fork_ttl: int | UnsetType | None,
    fork_sleep_after: int | UnsetType | None,
    output: str,
    data_dir: Path | None,
    **quota: int | UnsetType | None,
) -> None:
    """Show or change what a project may have. 'none' removes a limit. Services that exist are not affected.

    \b
    Examples:
      ramet project limits
      ramet project limits ci --fork-ttl 8h --max-fork-ttl 3d --max-forks 50
      ramet project limits ci --max-forks none
      ramet project limits ci --fork-sleep-after 15m
    """
    given = {
        "fork_ttl_seconds": fork_ttl,
        "max_fork_ttl_seconds": max_fork_ttl,
        **quota,
        "fork_sleep_after_seconds": fork_sleep_after,
    }
    changes = {name: value for name, value in given.items() if value is not UNSET}
    with existing_projects(data_dir) as projects:
        project_id = project_id_of(projects, project)
        limits = projects.change_limits(project_id, changes) if changes else projects.get_project(project_id).limits
    shown = {name: getattr(limits, name) for name in given}
    pairs = [(name, "none" if value is None else str(value)) for name, value in shown.items()]
    print_result(shown, output, lambda: print_pairs(pairs))


@contextmanager
def existing_projects(data_dir: Path | None) -> Iterator[Projects]:
    """Open the store of a data directory for a command."""
    context = click.get_current_context()
    act = on_host(context.command_path, **_said(context.params))
    with closing(open_store(existing_data_dir(data_dir), migrates=False)) as store, acting(act):
        yield Projects(store)


def _said(params: dict[str, Any]) -> dict[str, object]:
    """Return what the user has given to a command, as records of it show it."""
    return shown_fields({name: value for name, value in params.items() if name not in _UNSAID})


def project_id_of(projects: Projects, given: str | None) -> str:
    """Return the id of the project with a name or id, or of the only one. Raises NotFound, Invalid."""
    known = projects.list_projects()
    if given is not None:
        return find_named(known, given, "project", "See 'ramet project list'.").id
    if len(known) != 1:
        raise Invalid("PROJECT_NEEDED", f"There are {len(known)} projects", "Name one of them with --project.")
    return known[0].id


def address_of(data_dir: Path | None) -> tuple[str, str]:
    """Return where the interface of a data directory is, or will be, and the authority to verify it with, as PEM."""
    settings = load_settings(data_dir=data_dir)
    found = instance.running(settings.data_dir)
    if found is None:
        return base_url(settings.host, settings.port, tls=bool(settings.tls_cert)), ""
    return found.base_url, found.ca


def _project(project: Project) -> dict[str, str]:
    return {"id": project.id, "name": project.name, "created": project.created_at.isoformat()}
