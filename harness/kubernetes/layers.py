"""The layers that images are made of: root file systems of Debian packages, programs of Go, and Barman's tools."""

import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.kubernetes.network import NotAvailable, run_over_network
from harness.kubernetes.programs import Program
from harness.kubernetes.versions import POSTGRES, REPOSITORY, cache_directory, digest, run

_LEFT_OUT = (
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/locale/*",
    "/usr/lib/x86_64-linux-gnu/libLLVM*",
    "/usr/lib/llvm-*",
    "/usr/lib/postgresql/*/lib/llvmjit*",
    "/usr/lib/postgresql/*/lib/bitcode*",
)
_NO_MAIN_CLUSTER = (
    'mkdir -p "$1/etc/postgresql-common"; '
    'echo "create_main_cluster = false" > "$1/etc/postgresql-common/createcluster.conf"'
)
_TIDY = "rm -rf /var/cache/apt/* /var/lib/apt/lists/*"
# CloudNativePG runs its containers as user 26, and looks for PostgreSQL's programs on PATH.
_FOR_INSTANCES = (
    'chroot "$1" sh -ec "'
    "sed -i s/^postgres:x:[0-9]*:[0-9]*:/postgres:x:26:26:/ /etc/passwd;"
    " sed -i s/^postgres:x:[0-9]*:/postgres:x:26:/ /etc/group;"
    " chown -R 26:26 /var/lib/postgresql /var/log/postgresql;"
    f' ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/; {_TIDY}"'
)
_FOR_POOLERS = f'chroot "$1" sh -c "ln -sf ../sbin/pgbouncer /usr/bin/pgbouncer; {_TIDY}"'


@dataclass(frozen=True)
class Layer:
    """A tar file of the cache: `write` makes it at the path that it is given. The name says what it is made of."""

    name: str
    write: Callable[[Path], object]
    at: Path | None = None

    @property
    def path(self) -> Path:
        """Where the layer is, once it was built: in the cache, unless it is for one run only."""
        return self.at or cache_directory() / "layers" / f"{self.name}.tar"

    def build(self) -> None:
        """Make the layer, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        half = self.path.with_name(f"half-{self.path.name}")
        self.write(half)
        half.rename(self.path)


def debian(name: str, suite: str, packages: tuple[str, ...], customize: str) -> Layer:
    """Return a root file system of packages of a Debian suite."""

    def write(path: Path) -> None:
        run_over_network(
            f"the Debian packages of {suite}",
            "nice", "-n", "5", "mmdebstrap", "--quiet", "--variant=essential", "--mode=root",
            f"--include={','.join(packages)}", *(f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT),
            f"--essential-hook={_NO_MAIN_CLUSTER}", f"--customize-hook={customize}", suite, str(path),
        )  # fmt: skip

    return Layer(f"{name}-{digest(suite, *packages, customize, *_LEFT_OUT)}", write)


def programs(name: str, files: Mapping[str, Program], links: Mapping[str, str] | None = None) -> Layer:
    """Return a layer of programs, by their paths in the image, and of links."""

    def write(path: Path) -> None:
        with tarfile.open(path, "w") as archive:
            for inside, program in files.items():
                archive.add(program.path, inside)
            for inside, target in (links or {}).items():
                link = tarfile.TarInfo(inside)
                link.type, link.linkname = tarfile.SYMTYPE, target
                archive.addfile(link)

    parts = [f"{inside}={program.path}" for inside, program in files.items()]
    return Layer(f"{name}-{digest(*parts, *(links or {}))}", write)


def _write_barman(path: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        tools, overrides = Path(temporary) / "barman", Path(temporary) / "overrides"
        overrides.write_text("psycopg2; python_version < '3'\n")
        _install(tools, "--override", str(overrides), "--only-binary", ":all:", "barman[cloud]", "psycopg2-binary")
        for script in (tools / "bin").iterdir():
            first, _, rest = script.read_bytes().partition(b"\n")
            if first.startswith(b"#!"):
                script.write_bytes(b"#!/usr/bin/python3\n" + rest)
        _compile(tools, "opt/barman")
        with tarfile.open(path, "w") as archive:
            archive.add(tools, "opt/barman")


def install_packages(target: Path, place: str, *packages: str) -> None:
    """Install packages, in the versions of the lock, for the Python of the images, where they will be at a place."""
    _install(target, *packages)
    _compile(target, place)


def _install(target: Path, *packages: str) -> None:
    run_over_network(
        "the index of Python packages", _uv(), "pip", "install", "--quiet", "--no-config", "--target", str(target),
        "--python-version", _PYTHON, "--constraint", str(_LOCK), *packages,
    )  # fmt: skip


def _compile(target: Path, place: str) -> None:
    """Compile all modules: containers cannot write there, and would do it at each run of a tool, for many seconds."""
    run(
        _python(), "-m", "compileall", "-q", "-s", str(target), "-p", f"/{place}",
        "--invalidation-mode", "unchecked-hash", str(target),
    )  # fmt: skip


def _python() -> str:
    found = shutil.which(f"python{_PYTHON}")
    if found is None:
        raise NotAvailable(
            f"Python {_PYTHON} is needed to compile Barman's tools for its image; install python{_PYTHON}"
        )
    return found


def _uv() -> str:
    for candidate in ("uv", *(str(REPOSITORY / ".venv-tools" / place / "uv") for place in ("bin", "lib/bin"))):
        found = shutil.which(candidate)
        if found is not None:
            return found
    raise NotAvailable("uv is needed to install Barman's tools into their image; run script/setup")


# PostgreSQL of the release that Ramet is developed on, and that release's Python for Barman's tools.
_PYTHON = "3.11"
_LOCK = REPOSITORY / "requirements.lock"
OPERAND_ROOT = debian(
    "postgresql",
    "bookworm",
    (f"postgresql-{POSTGRES}", f"postgresql-{POSTGRES}-cron", "python3", "ca-certificates"),
    _FOR_INSTANCES,
)
# PgBouncer must be 1.19 or newer for CloudNativePG: that is the next release's.
POOLER_ROOT = debian("pgbouncer", "trixie", ("pgbouncer",), _FOR_POOLERS)
_PINNED = re.findall(r"^(?:barman|boto3|psycopg2-binary)==\S+", _LOCK.read_text(), re.MULTILINE)
BARMAN_TOOLS = Layer(f"barman-{digest(*_PINNED)}", _write_barman)
