"""docs/errors.md, made from the code: every error that it raises, by code, with its message and its remedy.

`script/reference` writes the page; a test fails while it differs. What a sentence takes from values is `…`.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
PAGE = _ROOT / "docs" / "errors.md"
_SOURCES = _ROOT / "src" / "ramet"
_CODE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
_GAP = "…"
_STATUSES = {
    "Invalid": "400",
    "WrongState": "400",
    "Exhausted": "400",
    "Unauthorized": "401",
    "Forbidden": "403",
    "NotFound": "404",
    "TooLarge": "413",
    "Unavailable": "503",
    "Unseen": "503",
    "Failed": "",
    "Error": "",
    "ApiError": "",
    "_refuse": "",
    "error_answer": "",
    "BrokenChain": "",
    "TimedOut": "",
    "WaitFailed": "",
    "StateUnreadable": "",
}
_STATUS_COMES_FIRST = ("ApiError", "_refuse", "error_answer")
_OF_HTTP = {"NOT_FOUND": "404", "METHOD_NOT_ALLOWED": "405", "BODY_TOO_LARGE": "413", "UNSUPPORTED_MEDIA_TYPE": "415"}
# The console alone raises these, and has its own statuses.
_OF_CONSOLE = {"SECRET_CHANGED": "409", "SENT_TWICE": "409"}
_HOST = ("archive", "backends", "machine", "operations", "procedures", "store")
_USER = ("cli", "client", "kits", "recovery", "configured.py", "settings.py")
_REQUESTS, _OPERATIONS, _COMMANDS = (
    "Answers to requests",
    "Reasons why work failed, or waits",
    "The command line, and the processes of the host",
)
_CHAPTERS = {
    _REQUESTS: "The HTTP interface answers with these, the command line shows them, and so does the console.",
    _OPERATIONS: "These are in `metadata.status_reason`, in the history of an operation (`ramet operations ID`) and "
    "in the log. What can pass by itself is tried again; where a request needs it at once, the answer is 503.",
    _COMMANDS: "The command line, `ramet up` and the Python client say these by themselves.",
}
_OPENING = """\
# Error codes

Made by `script/reference` from the code: every error by its code, with the status of the answer, its message, and
what to do. `…` stands for a name or a value. A code never changes its meaning, so programs may rely on it; messages
may change. [Troubleshooting](troubleshooting.md) begins with what you see instead.

"""
# Codes that are put together, or whose sentence is another program's: said here by hand.
COMPOSED: Mapping[str, tuple[str, str, str, str]] = {
    "INVALID_…": (
        _REQUESTS,
        "400",
        "The field … has a value that cannot be used",
        "The code names the field: `INVALID_TTL_SECONDS`, `INVALID_TARGET_TIME`. The message has the bounds.",
    ),
    "PROJECT_LIMIT": (
        _REQUESTS,
        "400",
        "The project may have … services, and would have …",
        "Delete some, or raise the limit on the host: `ramet project limits`.",
    ),
    "KEY_LIMIT": (
        _REQUESTS,
        "400",
        "The key may have … services, and would have …",
        "Delete some; an admin changes the limit with `ramet key update`.",
    ),
    "COPY_FAILED": (
        _OPERATIONS,
        "",
        "A copy of the source failed",
        "The message has the words of pg_basebackup. The copy of before stays; correct the source.",
    ),
    "LOAD_FAILED": (
        _OPERATIONS,
        "",
        "The copy of the source could not be loaded",
        "The message has the words of pg_restore or pg_basebackup. Correct what they name, then try again.",
    ),
    "INTERNAL": (
        _REQUESTS,
        "500",
        "Internal error; the server's log contains the reason",
        "Look for the reference in the log, and report it.",
    ),
}


@dataclass
class Entry:
    """What the code says under one code."""

    code: str
    chapter: str
    statuses: set[str] = field(default_factory=set)
    texts: list[tuple[str, str]] = field(default_factory=list)

    def add(self, status: str, message: str, remedy: str) -> None:
        self.statuses |= {status} - {""}
        if (message, remedy) not in self.texts:
            self.texts.append((message, remedy))


def page() -> str:
    """Return the page."""
    return _OPENING + "\n".join(_chapter(title, about) for title, about in _CHAPTERS.items())


def _chapter(title: str, about: str) -> str:
    found = [entry for _, entry in sorted(entries().items()) if entry.chapter == title]
    return "\n".join([f"## {title}", "", about, "", *(_shown(entry) for entry in found)])


def _shown(entry: Entry) -> str:
    status = f"Status {' or '.join(sorted(entry.statuses))}. " if entry.statuses else ""
    sentences = [f"{_plain(message)}.{f' → {_plain(remedy)}' if remedy else ''}" for message, remedy in entry.texts]
    if len(sentences) == 1:
        return f"### {entry.code}\n\n{status}{sentences[0]}\n"
    head = f"{status.rstrip()}\n\n" if status else ""
    return f"### {entry.code}\n\n{head}" + "".join(f"- {one}\n" for one in sentences)


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return re.sub(r"([<>*|\[\]])", r"\\\1", " ".join(text.split())).strip()


@cache
def entries() -> dict[str, Entry]:
    """Return what is said under each code."""
    found: dict[str, Entry] = {}
    for path, tree in _trees().items():
        for code, status, message, remedy in _raised(tree):
            chapter = _REQUESTS if status.isdecimal() and path.startswith("cli/host/") else _chapter_of(path)
            entry = found.setdefault(code, Entry(code, chapter))
            entry.chapter = min(entry.chapter, chapter, key=list(_CHAPTERS).index)
            entry.add(_OF_CONSOLE.get(code) or status or _OF_HTTP.get(code, ""), message, remedy)
    for code, (chapter, status, message, remedy) in COMPOSED.items():
        entry = found.setdefault(code, Entry(code, chapter))
        entry.texts.clear()
        entry.add(status, message, remedy)
    for entry in found.values():
        entry.texts = [text for text in entry.texts if _says_something(text[0])] or entry.texts
    return {code: entry for code, entry in found.items() if entry.texts}


def _says_something(message: str) -> bool:
    return len(re.findall("[a-z]{3,}", message)) > 1


@cache
def _trees() -> dict[str, ast.Module]:
    paths = sorted(_SOURCES.rglob("*.py"))
    names = {path.relative_to(_SOURCES).as_posix(): path for path in paths}
    return {name: ast.parse(path.read_text()) for name, path in names.items() if "/memory/" not in name}


def _chapter_of(path: str) -> str:
    room = path.partition("/")[0]
    return _OPERATIONS if room in _HOST else _COMMANDS if room in _USER else _REQUESTS


def codes() -> set[str]:
    """Return all codes that the sources name: of errors, and of parameters called `code`."""
    found = set()
    for tree in _trees().values():
        found |= {code for code, *_ in _raised(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "code":
                found |= set(_literals(node.value))
            if isinstance(node, ast.arguments):
                found |= set(_defaults(node))
    return found


def _defaults(arguments: ast.arguments) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    given = arguments.defaults
    pairs = [*zip(positional[len(positional) - len(given) :], given, strict=True)]
    pairs += [(one, value) for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    for argument, value in pairs:
        if argument.arg == "code":
            yield from _literals(value)


def _literals(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.Constant) and isinstance(value.value, str) and _CODE.fullmatch(value.value):
        yield value.value


def _raised(tree: ast.Module) -> Iterator[tuple[str, str, str, str]]:
    """Yield (code, status, message, remedy) of each error that a module makes."""
    constants = _imported(tree) | _assigned(tree.body)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    seen: set[ast.AST] = set()
    for scope in [*reversed(functions), tree]:  # an inner function first
        names = constants | _assigned(ast.walk(scope))
        for node in ast.walk(scope):
            if isinstance(node, ast.Call) and node not in seen and _kind(node) in _STATUSES and len(node.args) > 1:
                seen.add(node)
                yield from _made(node, names)


def _kind(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _made(call: ast.Call, names: Mapping[str, ast.expr]) -> Iterator[tuple[str, str, str, str]]:
    status, arguments = _STATUSES[_kind(call)], call.args
    if _kind(call) in _STATUS_COMES_FIRST:
        status, arguments = getattr(arguments[0], "value", ""), arguments[1:]
        status = str(status) if isinstance(status, int) else ""
    first, *rest = arguments
    messages = _texts(rest[0], names) if rest else []
    remedies = _texts(rest[1], names) if len(rest) > 1 else [""]
    for code in filter(_CODE.fullmatch, _texts(first, names)):
        for message in messages:
            if message.strip(f"{_GAP} "):
                yield from ((code, status, message, remedy.strip(f"{_GAP} \n")) for remedy in remedies)


def _imported(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the constants that a module imports from others, with their values."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            module = _trees().get(f"{(node.module or '').removeprefix('ramet.').replace('.', '/')}.py")
            known = {} if module is None else _assigned(module.body)
            found |= {one.asname or one.name: known[one.name] for one in node.names if one.name in known}
    return found


def _assigned(nodes: "Iterator[ast.AST] | list[ast.stmt]") -> dict[str, ast.expr]:
    """Return the names that are given a value once, with that value."""
    found: dict[str, ast.expr] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
                pairs = list(zip(target.elts, value.elts, strict=True))
            found |= {one.id: each for one, each in pairs if isinstance(one, ast.Name)}
    return found


def _texts(value: ast.expr, names: Mapping[str, ast.expr], depth: int = 0) -> list[str]:
    """Return what an expression may read as."""
    match value:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(str(part.value) if isinstance(part, ast.Constant) else _GAP for part in parts)]
        case ast.IfExp(body=one, orelse=other):
            return [*_texts(one, names, depth), *_texts(other, names, depth)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [a + b for a in _texts(left, names, depth) for b in _texts(right, names, depth)]
        case ast.Name(id=name) if name in names and depth < 3:
            return _texts(names[name], names, depth + 1)
        case _:
            return [_GAP]


if __name__ == "__main__":
    PAGE.write_text(page())
