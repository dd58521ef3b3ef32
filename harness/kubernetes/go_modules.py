"""Go modules that exist only to build programs of other modules with the versions that those were tested with.

`go install MODULE@VERSION` refuses modules with replacements and asks for a list of versions, which a module proxy
need not have. So each program is built in a module of its own, whose requirements are copied from the program's module.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.kubernetes.network import run_over_network
from harness.kubernetes.versions import cache_directory

_PROXY = "the Go module proxy that 'go env GOPROXY' names"


@dataclass(frozen=True)
class Module:
    """The module of a program: its path and version, and what replaces modules that a proxy does not have.

    A replacement within the module's own repository becomes the published module of the version `staging`, else the
    version that is required anyway.
    """

    path: str
    version: str
    staging: str | None = None
    replace: Mapping[str, str] = field(default_factory=dict)


def go(*arguments: str, directory: Path) -> str:
    """Run the go command with the caches of the cluster, and return its output. Raise RuntimeError with the reason."""
    go_directory = cache_directory() / "go"
    environment = os.environ | {
        "GOMODCACHE": str(go_directory / "modules"),
        "GOCACHE": str(go_directory / "build"),
        "GOFLAGS": "-p=2 -buildvcs=false -mod=mod",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
    }
    return run_over_network(_PROXY, "nice", "-n", "5", "go", *arguments, cwd=directory, env=environment)


def source_of(module: Module) -> Path:
    """Download a module unless it is there, and return its directory, which is read-only."""
    work = cache_directory() / "work"
    work.mkdir(parents=True, exist_ok=True)
    found = json.loads(go("mod", "download", "-json", f"{module.path}@v{module.version}", directory=work))
    return Path(found["Dir"])


def write_requirements(module: Module, directory: Path) -> None:
    """Write go.mod and go.sum of a module in `directory` that requires `module` and all that it was tested with."""
    source = source_of(module)
    declared: dict[str, Any] = json.loads(go("mod", "edit", "-json", str(source / "go.mod"), directory=directory))
    lines = [f"module ramet.test/{directory.name}", f"go {declared['Go']}"]
    local = {entry["Old"]["Path"] for entry in declared.get("Replace") or [] if entry["New"]["Path"].startswith(".")}
    for entry in declared["Require"]:
        staged = module.staging is not None and entry["Path"] in local
        lines.append(f"require {entry['Path']} {f'v{module.staging}' if staged else entry['Version']}")
    lines.append(f"require {module.path} v{module.version}")
    for entry in declared.get("Replace") or []:
        old, new = entry["Old"]["Path"], entry["New"]
        if old not in local and old not in module.replace:
            lines.append(f"replace {old} => {new['Path']} {new['Version']}")
        elif old in local and module.staging is not None:
            lines.append(f"replace {old} => {old} v{module.staging}")
    lines += [f"replace {path} => {path} v{version}" for path, version in module.replace.items()]
    (directory / "go.mod").write_text("\n".join(lines) + "\n")
    shutil.copyfile(source / "go.sum", directory / "go.sum")


def delete_caches() -> None:
    """Delete Go's caches, whose modules are read-only."""
    if (cache_directory() / "go").exists():
        go("clean", "-modcache", "-cache", directory=cache_directory())
        shutil.rmtree(cache_directory() / "go", ignore_errors=True)
