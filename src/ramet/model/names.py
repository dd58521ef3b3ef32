"""Names of services: which are valid, and those that are made from others."""

from ramet.errors import Invalid

NAME_LIMIT = 128
FORK_SUFFIX = "-fork"


def check_name(name: str) -> str:
    """Return the name, or raise Invalid when it is empty, blank, too long or holds control characters."""
    if not name:
        wrong = "it is empty"
    elif not name.isprintable():
        wrong = f"it holds others: {name[:40]!r}"
    elif not name.strip():
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
