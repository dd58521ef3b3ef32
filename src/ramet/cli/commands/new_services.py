"""What every new service is requested with, and what its command does afterwards: save, wait, print."""

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click
import msgspec

from ramet.api.schemas.services import Service
from ramet.cli.connection import connection_string
from ramet.cli.ui.keeping import KEPT, find_taken, keeping_of, keeping_options
from ramet.cli.ui.options import ENVIRONMENT, Listing, output_option, parent_of_replica, password_option
from ramet.cli.ui.output import print_data, say
from ramet.cli.ui.secrets import show_unsaved, shown_if_unsaved
from ramet.cli.ui.waiting import Waiting, waiting_options
from ramet.cli.user_files.passwords import passwords_path, save_password
from ramet.client import Client, Keeping
from ramet.client.errors import ApiError, TimedOut, is_absence
from ramet.client.polling import poll
from ramet.errors import Error, Failed
from ramet.model.environment import Environment
from ramet.model.procedures import SPECS
from ramet.model.service_type import ServiceType
from ramet.model.status import OperationStatus, Status

TYPE = click.Choice(ServiceType, case_sensitive=False)
_DELETION_SECONDS = 1800.0  # how long a command waits for one that does not wait otherwise
_CREATIONS = {name for name, spec in SPECS.items() if spec.creates and spec.set_status is None}


def version_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option for the major version of PostgreSQL."""
    return click.option(
        "--pg-version", type=int, metavar="VERSION", help=f"PostgreSQL major version.  [default: {default}]"
    )


@dataclass(frozen=True)
class NewService:
    """What every new service is requested with, and what its command does afterwards."""

    cpu: str | None
    memory: str | None
    environment: Environment
    idempotency_key: str | None
    keeping: Keeping
    allow_duplicate_name: bool
    if_not_exists: bool
    no_save_password: bool
    waiting: Waiting
    output: str

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the request."""
        return {
            "cpu_millis": self.cpu,
            "memory_gbs": self.memory,
            "environment": self.environment,
            "keeping": self.keeping,
            "idempotency_key": self.idempotency_key,
        }

    def returns_existing(self, client: Client, *names: str, known: Listing | None = None) -> bool:
        """Print the services that have these names already, if the user wants that; True when there is no more to do.

        One that is being deleted or could not be made is waited for: until it is gone, its name leads to two services.
        Raises Invalid for a name that is taken. A request with an idempotency key may be a repetition: it has the name.
        """
        if self.allow_duplicate_name or (self.idempotency_key is not None and not self.if_not_exists):
            return False
        there = (known or Listing(client)).services
        while self.if_not_exists and self._has_awaited_ends(client, there, names):
            there = client.list_services()  # another command may have made one of these names
        found = find_taken(there, names, if_not_exists=self.if_not_exists)

        def ready() -> Iterator[Service]:
            for one in found:
                doing, done = f"Waiting for {one.name}", f"{one.name} is READY"
                waits = not one.paused
                yield (self.waiting.follow(client.wait_ready, one.service_id, doing, done) if waits else None) or one

        if found:
            _print_each(ready(), self.output, as_list=len(names) > 1)
        return bool(found)

    def _has_awaited_ends(self, client: Client, known: Sequence[Service], names: Sequence[str]) -> bool:
        """Wait for the services of these names that will be gone, also with --no-wait; tell whether one was."""
        of_names = [one for one in known if one.name in names]
        deleted = [one for one in of_names if one.status is Status.DELETING]
        failed = [one for one in of_names if one.status is Status.UNSTABLE and _could_not_be_made(client, one)]
        waiting = Waiting(_DELETION_SECONDS) if self.waiting.seconds is None else self.waiting
        for one in deleted:
            doing, done = f"Waiting for the deletion of the earlier {one.name}", f"The earlier {one.name} is deleted"
            waiting.follow(client.wait_deleted, one.service_id, doing, done)
        for one in failed:
            doing, done = (
                f"Waiting for the end of {one.name}, which failed",
                f"The {one.name} that failed is gone, or made again",
            )
            waiting.follow(functools.partial(_wait_gone, client), one.service_id, doing, done)
        return bool(deleted or failed)

    def follow(
        self, client: Client, accepted: Service, doing: str = "", detail: Callable[[], str] = lambda: ""
    ) -> None:
        """Save the password before anything can fail, wait if the user wants to, and print the service.

        `detail` returns how far it is.
        """
        from ramet.cli.ui.service_views import print_service  # imported while the server works, not before

        password = self._save_password(accepted)
        doing = doing or ("Creating" if accepted.forked_from is None else "Forking")
        try:
            ready = self.waiting.follow(
                client.wait_ready, accepted.service_id, f"{doing} {accepted.name}", f"{accepted.name} is READY", detail
            )
        except (Error, click.Abort):
            if self.no_save_password and password is not None:
                show_unsaved(_password_named(accepted), password)
            raise
        shown = msgspec.structs.replace(ready or accepted, initial_password=accepted.initial_password)
        print_service(shown, self.output, self._access(accepted, password) if self.output == "table" else ())

    def follow_all(self, client: Client, accepted: Sequence[Service]) -> None:
        """Save or show all passwords before anything can fail, wait for each if the user wants to, and print them.

        Raises the first error after the last wait.
        """
        unsaved: list[Failed] = []
        for one in accepted:
            try:
                password = self._save_password(one)
            except Failed as failed:
                unsaved.append(failed)
                continue
            if self.no_save_password and password is not None and self.waiting.seconds is not None:
                show_unsaved(_password_named(one), password)
        if unsaved:
            raise unsaved[0]
        errors: list[Error] = []
        found = self._each_ready(client, accepted, errors)
        _print_each(found, self.output, as_list=True, extra=lambda one: self._access(one, _password_of(one)))
        for error in errors[1:]:
            say(f"Error: {error}", "red")
        if errors:
            raise errors[0]

    def _each_ready(self, client: Client, accepted: Sequence[Service], errors: list[Error]) -> Iterator[Service]:
        """Yield each service when it is READY, or as it is where no wait is wanted; note errors.

        All of them together may take the time that the user gives.
        """
        seconds, begun = self.waiting.seconds, time.monotonic()
        for one in accepted:
            left = None if seconds is None else max(seconds - (time.monotonic() - begun), 0.0)
            doing, done = f"Forking {one.name}", f"{one.name} is READY"
            try:
                ready = replace(self.waiting, seconds=left).follow(client.wait_ready, one.service_id, doing, done)
            except Error as error:
                errors.append(error)
                continue
            yield msgspec.structs.replace(ready or one, initial_password=one.initial_password)

    def _save_password(self, accepted: Service) -> str | None:
        """Save the password of a new service unless the user wants none saved, and return it if there is one.

        Raises Failed for one that cannot be saved, and has shown it then.
        """
        password = _password_of(accepted)
        if password is not None and not self.no_save_password:
            with shown_if_unsaved(_password_named(accepted), password):
                save_password(accepted.endpoint, password)
        return password

    def _access(self, accepted: Service, password: str | None) -> list[tuple[str, str]]:
        """Return how to connect, which asks the endpoint whether it speaks TLS."""
        return [("password", self._password_text(password)), ("connect", connection_string(accepted.endpoint))]

    def _password_text(self, password: str | None) -> str:
        if password is None:
            return "changed since the service was created; to set another one: ramet service update-password"
        return password if self.no_save_password else f"saved in {passwords_path()}"


def _could_not_be_made(client: Client, service: Service) -> bool:
    """Tell whether the creation of a service has failed, or is being undone: Ramet shows it for a short time more."""
    if parent_of_replica(service) is not None:
        return False
    known = client.list_operations(service.service_id).operations  # newest first: a recovery may have been tried again
    newest = next((one for one in known if one.operation in _CREATIONS), None)
    return newest is not None and newest.status in (OperationStatus.UNDOING, OperationStatus.FAILED)


def _wait_gone(client: Client, service_id: str, timeout_seconds: float, seen: Callable[[Service], None]) -> None:
    """Wait until a service that could not be made is gone, or is made after all, as by another recovery."""

    def is_gone() -> bool | None:
        try:
            found = client.get_service(service_id)
        except ApiError as error:
            if is_absence(error):
                return True
            raise
        seen(found)
        return True if found.status is not Status.UNSTABLE else None

    message = f"Service {service_id} failed, and is not gone after {timeout_seconds:g} s"
    poll(is_gone, timeout_seconds, lambda: TimedOut("WAIT_TIMED_OUT", message, f"See 'ramet operations {service_id}'."))


def _password_of(accepted: Service) -> str | None:
    return accepted.initial_password if isinstance(accepted.initial_password, str) else None


def _password_named(accepted: Service) -> str:
    return f"The password of {accepted.name} ({accepted.service_id})"


def _print_each(
    services: Iterable[Service],
    output: str,
    *,
    as_list: bool,
    extra: Callable[[Service], Sequence[tuple[str, str]]] = lambda _: (),
) -> None:
    """Print services: for people each when it comes, with `extra` lines; for programs one document.

    That is a list, or with `as_list` False the only service.
    """
    from ramet.cli.ui.service_views import print_service

    if output == "table":
        for one in services:
            print_service(one, output, extra(one))
        return
    found = list(services)
    print_data(found if as_list else found[0], output)


def new_service_options(default_size: str, *, both: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of new services; the command gets them as `new`."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_new(**named: Any) -> Any:
            named["keeping"] = keeping_of(**{name: named.pop(name) for name in KEPT})
            new = NewService(**{name: named.pop(name) for name in NewService.__dataclass_fields__})
            return command(new=new, **named)

        key = click.option("--idempotency-key", help="A repeated request with the same key returns the same service.")
        beside = {"cpu": "; with --memory", "memory": "; with --cpu"} if both else {"cpu": "", "memory": ""}
        cpu = click.option(
            "--cpu", help=f"Thousandths of a core, or 'shared'{beside['cpu']}.  [default: {default_size}]"
        )
        memory = click.option("--memory", help=f"Gigabytes, or 'shared'{beside['memory']}.  [default: {default_size}]")
        environment = click.option(
            "--environment",
            type=ENVIRONMENT,
            default="DEV",
            show_default=True,
            help="Environment: PROD (a restore or a move needs its name) or DEV (neutralized when forked).",
        )
        return cpu(memory(environment(keeping_options(key(password_option(waiting_options(output_option(with_new))))))))

    return decorate
