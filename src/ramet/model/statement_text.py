"""The text of a statement without what it says literally: constants may be passwords, and comments may hold them."""

import re

from ramet.model.logs import redacted

_PART = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<name> "(?:[^"]|"")*(?:"|\Z) )
    | (?P<escaped> (?<![\w$])[eE]'(?:[^'\\]|''|\\.)*(?:'|\Z) )
    | (?P<literal> '(?:[^']|'')*(?:'|\Z) )
    | (?P<dollars> (?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z) )
    """,
    re.DOTALL | re.VERBOSE,
)
_MASK = "'…'"


def without_literals(text: str) -> str:
    """Return a statement, which may be cut off, with a mask for each string constant, and without comments.

    Where the end of a constant or of a comment depends on settings or on nesting, the rest is left out.
    """
    kept, at = "", 0
    for found in _PART.finditer(text):
        kept, at = kept + text[at : found.start()], found.end()
        if found["name"] is not None:
            kept += found["name"]
        elif _is_ambiguous(found):
            return redacted(f"{kept}…").strip()
        elif found["comment"] is None:
            kept += _MASK
    return redacted(kept + text[at:]).strip()


def _is_ambiguous(found: "re.Match[str]") -> bool:
    comment, literal = found["comment"], found["literal"]
    return (comment is not None and "/*" in comment[2:]) or (literal is not None and "\\" in literal)
