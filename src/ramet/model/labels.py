"""The labels of a service: what its users sort services by, such as owner=ada or pr=42."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ramet.errors import Invalid

MOST_LABELS = 32
LONGEST_VALUE = 128
_KEY = re.compile(r"[a-z0-9](?:[a-z0-9._/-]{0,61}[a-z0-9])?", re.ASCII)
_KEY_RULE = "1 to 63 characters a-z, 0-9, '.', '_', '/' and '-', the first and last of them a letter or a digit"


@dataclass(frozen=True)
class LabelFilter:
    """What a list is limited to: services that have the label `key`, with this value unless it is None."""

    key: str
    value: str | None

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a service with these labels is wanted."""
        return self.key in labels and self.value in (None, labels[self.key])


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels in the order of their keys. Raises Invalid when they are too many, or one is not allowed."""
    if len(labels) > MOST_LABELS:
        raise Invalid("INVALID_LABEL", f"labels must be at most {MOST_LABELS} (got {len(labels)})", "Remove some.")
    for key, value in labels.items():
        if _KEY.fullmatch(key) is None:
            raise Invalid("INVALID_LABEL", f"labels has the key {key[:64]!r}, and a key has {_KEY_RULE}")
        if len(value) > LONGEST_VALUE or not value.isprintable():
            raise Invalid(
                "INVALID_LABEL",
                f"labels has the value {value[:64]!r} for {key}, and a value has up to {LONGEST_VALUE} printable"
                " characters",
            )
    return dict(sorted(labels.items()))


def changed_labels(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return labels with some set, and those whose new value is None removed. Raises Invalid."""
    return check_labels({key: value for key, value in {**labels, **changes}.items() if value is not None})


def parse_filter(text: str) -> LabelFilter:
    """Return the filter that 'key' or 'key=value' means. Raises Invalid for a key that no label can have."""
    key, equals, value = text.partition("=")
    if _KEY.fullmatch(key) is None:
        raise Invalid(
            "INVALID_LABEL",
            f"label must be key or key=value (got {text[:64]!r})",
            f"A key has {_KEY_RULE}.",
        )
    return LabelFilter(key, value if equals else None)
