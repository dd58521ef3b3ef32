"""`ramet recover`: list what an off-host archive holds, and bring services back from it."""

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from ramet.acting import acting, on_host
from ramet.archive.object_store import Bucket, open_bucket
from ramet.cli.host import instance
from ramet.cli.host.commands import begin
from ramet.cli.host.options import setting_option
from ramet.cli.host.recovery_views import Reporter, print_contents, print_result_of
from ramet.cli.ui.durations import absolute_time
from ramet.cli.ui.options import data_option, output_option
from ramet.cli.ui.output import say
from ramet.configured import has_storage, installation_of, is_store_used
from ramet.control.plane import utc_now
from ramet.errors import Invalid
from ramet.model.timestamps import parse_timestamp, rfc3339
from ramet.recovery import session
from ramet.recovery.catalogue import Secrets
from ramet.recovery.contents import Contents, read_contents
from ramet.recovery.plan import make_plan
from ramet.recovery.rows import submit_recoveries
from ramet.recovery.sealed import KEY_FILE, RecoveryKey, read_key
from ramet.settings import Settings

if TYPE_CHECKING:
    from ramet.app import Runtime

_LOOK_SECONDS = 0.2


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to recover, and on which terms."""

    services: tuple[str, ...]
    everything: bool
    target: datetime | None
    may_take_over: bool
    new_ports: bool
    without_key: bool


@click.command("recover")
@click.argument("services", nargs=-1, metavar="[SERVICE]...")
@click.option("--from", "url", required=True, help="The archive, such as s3://bucket/prefix.")
@click.option("--all", "everything", is_flag=True, help="Recover every service.")
@click.option("--to", "target", help="Recover to this time (RFC 3339, or '10 minutes ago') instead of the newest.")
@click.option("--take-over", is_flag=True, help="Write to the archive from now on; the lost host is refused.")
@click.option("--new-ports", is_flag=True, help="Let services whose ports are in use here have others.")
@click.option("--without-key", is_flag=True, help="Recover without the secrets that need the recovery key.")
@click.option(
    "--archive-key-file", help="File with what 'ramet archive key' printed.  [default: RAMET_ARCHIVE_KEY_FILE]"
)
@data_option
@setting_option("storage_driver")
@setting_option("port_range")
@output_option
def recover(
    services: tuple[str, ...],
    url: str,
    everything: bool,
    target: str | None,
    take_over: bool,
    new_ports: bool,
    without_key: bool,
    data_dir: Path | None,
    output: str,
    **arguments: str | None,
) -> int:
    """Bring services back after the loss of a host. Without services and without --all, list what the archive holds.

    The services get the same names, ids, ports and passwords in a new data directory. If the command is interrupted,
    run it again: it continues.

    \b
    Examples:
      ramet recover --from s3://bucket/prefix
      ramet recover --from s3://bucket/prefix --all --take-over --archive-key-file ramet-archive.key
      ramet recover --from s3://bucket/prefix shop --to 2026-01-15T10:30:00Z
    """
    bucket = open_bucket(url)
    contents = read_contents(bucket)
    if everything and services:
        raise click.UsageError("Give services, or --all.")
    if not services and not everything:
        print_contents(contents, output)
        return 0
    time_wanted = None if target is None else parse_timestamp("to", absolute_time(target, utc_now()))
    wanted = Wanted(
        services=services,
        everything=everything,
        target=time_wanted,
        may_take_over=take_over,
        new_ports=new_ports,
        without_key=without_key,
    )
    settings = begin(data_dir, archive_url=url, **arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is not complete has not succeeded
    with instance.alone(settings.data_dir):
        return _recover(settings, bucket, contents, wanted, output)


def _recover(settings: Settings, bucket: Bucket, contents: Contents, wanted: Wanted, output: str) -> int:
    """Recover into a data directory that is locked; return the exit code."""
    _check_backend(settings)
    from ramet.app import Runtime  # it takes a second, and the list of what there is does not need it

    holdings = list(contents.holdings) if wanted.everything else contents.choose(wanted.services)
    session.check_data_dir(settings.data_dir, contents.url, is_used=is_store_used(settings) or has_storage(settings))
    key = _key(settings, contents, without_key=wanted.without_key)
    secrets = Secrets() if key is None else contents.secrets(key)
    _agree_on_take_over(settings, contents, wanted)
    has_secrets = session.mark_data_dir(settings.data_dir, contents.url, secrets, key)
    with closing(Runtime.open(settings)) as runtime:
        plan = make_plan(runtime.plane, holdings, wanted.target, new_ports=wanted.new_ports)
        for difference in plan.differences:
            say(difference, "yellow")
        if plan.entries:
            session.take_over(bucket, installation_of(settings))
        with acting(on_host("ramet recover", services=[entry.id for entry in plan.entries])):
            ids = submit_recoveries(
                runtime.plane, contents.projects, contents.keys, plan.entries, secrets, wanted.target
            )
        _work(runtime, ids, wanted.target)
        ended = session.progress_of(runtime.store, ids)
    print_result_of(settings, contents.url, ended, plan, output, has_secrets=has_secrets)
    return 1 if plan.refused or any(each.service.failed_at is not None for each in ended) else 0


def _check_backend(settings: Settings) -> None:
    """Raise Invalid on Kubernetes: the Barman plugin refuses to archive below a name that has WAL.

    Its check also keeps apart the WAL of a Cluster that runs still: no owner of the archive is known to the plugin.
    """
    if settings.backend == "kubernetes":
        raise Invalid(
            "NOT_ON_KUBERNETES",
            "The backend for Kubernetes cannot bring services back under their own ids",
            "docs/kubernetes.md says how they are restored.",
        )


def _key(settings: Settings, contents: Contents, *, without_key: bool) -> RecoveryKey | None:
    """Return the recovery key; None to recover without it. Raises Invalid when neither was given."""
    path = settings.archive_key_file or settings.data_dir / "secrets" / KEY_FILE
    if without_key:
        return None
    if path.exists():
        return read_key(path)
    raise Invalid(
        "ARCHIVE_KEY_NEEDED",
        f"The secrets of the archive {contents.url} are encrypted with the recovery key"
        f" {contents.catalogues[0].sealed.key_id}, which 'ramet archive key' printed on the lost host",
        "Give --archive-key-file, or --without-key: the databases come back with their roles and passwords, but clients"
        " that verify certificates need the new ca.crt, and people have to sign in to the console again.",
    )


def _agree_on_take_over(settings: Settings, contents: Contents, wanted: Wanted) -> None:
    """Raise Invalid when the archive belongs to another installation and the take-over is not confirmed."""
    if not session.needs_take_over(contents, installation_of(settings)) or wanted.may_take_over:
        return
    if sys.stdin.isatty():
        say(session.describe_writer(contents, utc_now()) + ".", "yellow")
        if click.confirm("Is it lost or stopped, and shall this host write to the archive from now on?", err=True):
            return
    raise session.take_over_needed(contents, utc_now())


def _work(runtime: "Runtime", ids: Sequence[str], target: datetime | None) -> None:
    """Run the operations until every service is there or has failed."""
    runtime.worker.take_over()
    runtime.worker.start()
    try:
        with Reporter() as reporter:
            while True:
                found = session.progress_of(runtime.store, list(ids))
                reporter.show(found)
                if all(each.is_over for each in found):
                    return
                time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt as interrupt:
        # 'an hour ago' is another time when the command runs again.
        same = "" if target is None else f", with --to {rfc3339(target)}"
        raise click.Abort(f"The recovery is not complete. Run it again{same}: it continues.") from interrupt
    finally:
        runtime.worker.stop()
