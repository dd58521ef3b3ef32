"""Names of services: which are valid, and those that are made from others."""

import unicodedata

from ramet.errors import Invalid

NAME_LIMIT = 128
_REFUSED = {"Cc", "Cs", "Zl", "Zp"}
_BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_UNSEEN = {"Cf", "Zs"}
FORK_SUFFIX = "-fork"


def check_name(name: str) -> str:
    """Return the name, or raise Invalid when it is empty, blank, too long or holds characters that harm.

    These are control characters, line and paragraph separators, and those that turn the direction of what follows.
    Others are accepted whether this Python knows them or not: joiners are part of words and of emoji.
    """
    if not name:
        wrong = "it is empty"
    elif any(
        unicodedata.category(each) in _REFUSED or unicodedata.bidirectional(each) in _BIDIRECTIONAL for each in name
    ):
        wrong = f"it holds others: {name[:40]!r}"
    elif all(unicodedata.category(each) in _UNSEEN for each in name):
        wrong = "it has only spaces"
    elif len(name) > NAME_LIMIT:
        wrong = f"it has {len(name)}: {name[:40]!r}…"
    else:
        return name
    raise Invalid(
        "INVALID_NAME",
        f"name must have 1 to {NAME_LIMIT} printable characters, but {wrong}",
        "Send another name.",
    )


def suffixed(name: str, suffix: str) -> str:
    """Return a name with a suffix, cut so that it is within the limit."""
    return name[: NAME_LIMIT - len(suffix)] + suffix


def fork_name(parent_name: str) -> str:
    """Return the default name of a fork, with the parent's name cut so that the whole fits the limit."""
    return suffixed(parent_name, FORK_SUFFIX)
