"""The system user that servers run as: PostgreSQL refuses to run as root."""

import os
import pwd
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from ramet.backends.local.host import files
from ramet.errors import Failed
from ramet.machine.programs import complete

SYSTEM_USER = "ramet"


class Identity(TypedDict, total=False):
    """The arguments of subprocess that run a program as an account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class Account:
    """A system user. `lent` says that this process is root, and files and servers belong to another user."""

    name: str
    uid: int
    gid: int
    lent: bool

    def identity(self) -> Identity:
        """Return the arguments of subprocess that run a program as this account; none when it is the current user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.lent else {}

    def lend(self, command: list[str]) -> tuple[list[str], Identity]:
        """Return a command, and the arguments of subprocess, that run it as this account without a slow fork().

        setpriv changes the user: until it has executed the command, the started process is setpriv.
        """
        setpriv = shutil.which("setpriv", path="/usr/bin:/bin") if self.lent else None
        if setpriv is None:
            return command, self.identity()
        return [setpriv, f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", "--", *command], {}

    def own(self, path: Path) -> None:
        """Make the account the owner of a file or directory."""
        if self.lent:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def make_directory(self, path: Path, mode: int = 0o700) -> None:
        """Create a directory that belongs to the account, or correct the mode and owner of an existing one.

        Raises Failed for a symbolic link to a directory.
        """
        path.mkdir(mode=mode, exist_ok=True)
        with files.opened_directory(path) as directory:
            os.fchmod(directory, mode)
            if self.lent:
                os.fchown(directory, self.uid, self.gid)

    def check_reach(self, path: Path) -> None:
        """Raise Failed, naming the directory that denies access, when the account cannot reach `path`."""
        if not self.lent:
            return
        for step in (*reversed(path.absolute().parents), path.absolute()):
            if step.is_dir() and not self._may_enter(step.stat()):
                raise Failed(
                    "DIRECTORY_UNREACHABLE",
                    f"Servers run as the system user {self.name}, which has no permission to enter {step}",
                    f"Move the data directory (to /var/lib/ramet for example), or run: chmod o+x {step}",
                )

    def _may_enter(self, found: os.stat_result) -> bool:
        if found.st_uid == self.uid:
            return bool(found.st_mode & 0o100)
        if found.st_gid == self.gid:
            return bool(found.st_mode & 0o010)
        return bool(found.st_mode & 0o001)


def server_account() -> Account:
    """Return the account that servers run as; root creates the system user when it does not exist."""
    if os.geteuid() != 0:
        return Account(_own_name(), os.geteuid(), os.getegid(), lent=False)
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        entry = _make_system_user()
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, lent=True)


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError as error:
        raise Failed(
            "NO_USER_NAME",
            f"The user {os.geteuid()} has no name on this host, and PostgreSQL needs one",
            "Add it to /etc/passwd, or run as another user.",
        ) from error


def _make_system_user() -> pwd.struct_passwd:
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent",
               "--shell", "/usr/sbin/nologin", SYSTEM_USER]  # fmt: skip
    done = complete(command)
    try:
        return pwd.getpwnam(SYSTEM_USER)  # another process may have created it
    except KeyError as error:
        raise Failed(
            "NO_SYSTEM_USER",
            f"The system user {SYSTEM_USER} does not exist and could not be created",
            f"{' '.join(command)} failed with exit status {done.returncode}: {done.stderr[-500:].strip()}",
        ) from error
