"""Life spans and labels as forms have them: durations in hours, and labels as lines key=value."""

from collections.abc import Mapping
from typing import Any

from ramet.console.views.forms import InvalidField
from ramet.model import sleep
from ramet.model.life_span import LEAST_SECONDS, MOST_SECONDS, LifeTerms
from ramet.model.service import Service

KEPT = ("ttl", "idle_ttl", "sleep_after", "labels")
_SECONDS_PER_HOUR = 3600


def kept_values(service: Service) -> Mapping[str, str]:
    """Return the values that a form about a service begins with."""
    span = service.life_span
    return {
        "ttl": "" if span is None or span.ttl_seconds is None else _hours(span.ttl_seconds),
        "idle_ttl": "" if span is None or span.idle_ttl_seconds is None else _hours(span.idle_ttl_seconds),
        "sleep_after": "" if service.sleep_after_seconds is None else _hours(service.sleep_after_seconds),
        "labels": "\n".join(f"{key}={value}" for key, value in service.labels.items()),
    }


def kept_fields(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a request for a new service. Raises Invalid."""
    return {"life": terms_of(values), "labels": labels_of(values), "sleep_after_seconds": sleep_after_of(values)}


def terms_of(values: Mapping[str, str]) -> LifeTerms:
    """Return the life span that a form says; what is empty is none. Raises Invalid."""
    return LifeTerms(ttl_seconds=_seconds(values, "ttl"), idle_ttl_seconds=_seconds(values, "idle_ttl"))


def sleep_after_of(values: Mapping[str, str]) -> int | None:
    """Return when a service falls asleep; None where the field is empty. Raises Invalid."""
    return _seconds(values, "sleep_after", sleep.LEAST_SECONDS, sleep.MOST_SECONDS)


def labels_of(values: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that a form says, one on each line. Raises Invalid."""
    found = {}
    for line in filter(None, map(str.strip, values.get("labels", "").splitlines())):
        key, equals, value = line.partition("=")
        if not equals:
            raise InvalidField("labels", f"Enter each label as key=value, on a line of its own (got {line[:64]!r})")
        found[key.strip()] = value.strip()
    return found


def _seconds(values: Mapping[str, str], name: str, least: int = LEAST_SECONDS, most: int = MOST_SECONDS) -> int | None:
    text = values.get(name, "").strip()
    if not text:
        return None
    try:
        seconds = round(float(text) * _SECONDS_PER_HOUR)
    except (ValueError, OverflowError) as error:
        raise InvalidField(name, f"Enter a number of hours (got {text[:20]!r})") from error
    if not least <= seconds <= most:
        bounds = f"from {_hours(least)} to {_hours(most)}"
        raise InvalidField(name, f"Enter hours {bounds} (got {text[:20]})")
    return seconds


def _hours(seconds: int) -> str:
    return f"{seconds / _SECONDS_PER_HOUR:.4f}".rstrip("0").rstrip(".")
