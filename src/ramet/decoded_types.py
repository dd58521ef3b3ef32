"""What msgspec has to know of the types that threads decode and convert to.

msgspec learns a type when it is used first, and publishes what it knows of it before that is complete: where another
thread uses the type at that moment, the process ends with a segmentation fault (msgspec 0.22).
"""

import dataclasses
from contextlib import suppress

import msgspec

_PACKAGE = __name__.partition(".")[0] + "."


def learn_types() -> None:
    """Let msgspec learn every type of this package that is loaded; call it before threads are started."""
    for found in _classes():
        is_own = str(found.__module__).startswith(_PACKAGE)  # of some classes it is no text
        if is_own and (issubclass(found, msgspec.Struct) or dataclasses.is_dataclass(found)):
            with suppress(TypeError, NameError):  # it has fields that cannot be decoded, so that nobody does
                msgspec.json.Decoder(found)


def _classes() -> set[type]:
    found: set[type] = set()
    left: list[type] = [object]
    while left:
        new: set[type] = set(type.__subclasses__(left.pop())) - found
        found |= new
        left += new
    return found
