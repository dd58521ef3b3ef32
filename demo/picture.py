"""The moving picture of README.md: `python -m demo.picture` records a session and writes it as an animated SVG.

Commands really run, on a Ramet of their own; what they print and how long they take is what the picture shows.
"""

import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path

from demo.stage import make_home, remove, start
from harness.instance import Instance

_TARGET = Path(__file__).parents[1] / "docs" / "images" / "terminal.svg"
_COLUMNS, _ROWS = 112, 22
_CHARACTER, _LINE, _MARGIN = 8.4, 19, 16
_TYPED_SECONDS, _READ_SECONDS, _LAST_SECONDS, _LONGEST_SECONDS = 1.2, 1.6, 4.0, 2.5
_STYLE = """
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d7dce2; white-space: pre; }
.p { fill: #7fd1a0; } .n { fill: #8b949e; } .f { visibility: hidden; }
"""


@dataclass(frozen=True)
class Frame:
    """What the terminal shows for a while: lines that begin with '$ ' were typed, those with '# ' are remarks."""

    lines: Sequence[str]
    seconds: float


def record(instance: Instance) -> Iterator[Frame]:
    """Run the session, and yield what the terminal shows."""
    shown: list[str] = []
    before_the_mistake = ""
    for text in (
        "ramet service create shop",
        "ramet psql shop -c 'CREATE TABLE orders AS SELECT generate_series(1, 1000) AS id'",
        "ramet psql shop -c 'DELETE FROM orders'",
        "# That was the wrong database. As of {}, all orders were there.",
        "ramet fork shop --to {} --name undo",
        "ramet psql undo -c 'SELECT count(*) FROM orders'",
        "ramet ls",
    ):
        if "DELETE" in text:
            time.sleep(3)  # a time to go back to: no transaction ends in it
            before_the_mistake = f"{datetime.now():%H:%M:%S}"  # noqa: DTZ005 - as a person reads it off a clock
            time.sleep(2)
        typed = text.format(before_the_mistake)
        if typed.startswith("#"):
            shown.append(typed)
            yield Frame(tuple(shown), _READ_SECONDS)
            continue
        shown.append(f"$ {typed}")
        yield Frame(tuple(shown), _TYPED_SECONDS)
        begun = time.monotonic()
        shown += _output(instance, typed)
        took = min(time.monotonic() - begun, _LONGEST_SECONDS)
        yield Frame(tuple(shown), took + _READ_SECONDS)


def _output(instance: Instance, typed: str) -> list[str]:
    done: subprocess.CompletedProcess[str] = instance.run_shell(f"{typed} 2>&1", instance.root)
    if done.returncode != 0:
        raise AssertionError(f"{typed}: {done.stdout}")
    return done.stdout.replace(f"{instance.root}/config", "~/.config").rstrip().splitlines()


def picture(frames: Sequence[Frame]) -> str:
    """Return the frames as an animated SVG, which begins again at its end."""
    total = sum(one.seconds for one in frames) + _LAST_SECONDS
    width, height = _COLUMNS * _CHARACTER + 2 * _MARGIN, _ROWS * _LINE + 2 * _MARGIN
    style, groups, at = [_STYLE], [], 0.0
    for number, frame in enumerate(frames):
        is_last = number == len(frames) - 1
        begin, end = 100 * at / total, 100.0 if is_last else 100 * (at + frame.seconds) / total
        style.append(f"@keyframes k{number} {{ {begin:.2f}% {{ visibility: visible; }} {end:.2f}%")
        style.append("{ visibility: hidden; } }" if end < 100 else "{ visibility: visible; } }")
        style.append(f"#f{number} {{ animation: k{number} {total:.1f}s step-end infinite; }}\n")
        groups.append(f'<g class="f" id="f{number}">{_text(frame.lines[-_ROWS:])}</g>')
        at += frame.seconds
    style.append(f"@media (prefers-reduced-motion) {{ .f {{ animation: none !important; }} #f{len(frames) - 1} ")
    style.append("{ visibility: visible; } }")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">'
        "<title>A session in a terminal, recorded by demo/picture.py</title>"
        f"<style>{''.join(style)}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="#161b22"/>{"".join(groups)}</svg>\n'
    )


def _text(lines: Sequence[str]) -> str:
    kinds = {"$ ": ' class="p"', "# ": ' class="n"'}
    return "".join(
        f'<text x="{_MARGIN}" y="{_MARGIN + _LINE * row + 14}"{kinds.get(line[:2], "")}>{escape(_fitting(line))}</text>'
        for row, line in enumerate(lines)
    )


def _fitting(line: str) -> str:
    return line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 1]}…"


def main() -> None:
    """Record, and write the picture."""
    home = make_home()
    instance = start(home)
    try:
        _TARGET.write_text(picture(list(record(instance))))
    finally:
        remove(instance)


if __name__ == "__main__":
    main()
