"""What was taken from a fork so that it does not act on the world that its parent acts on, in words."""

from collections.abc import Iterable, Mapping
from typing import Any

from ramet.model.words import counted, listed


def neutralized_lines(facts: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what was kept from acting on the world that the parent acts on, as far as there was any."""
    prepared = facts.get("prepared_transactions") or []
    if prepared:
        ended = facts.get("prepared_transactions_rolled_back") or 0
        fate = "rolled back" if ended >= len(prepared) else "kept; they hold their locks"
        if 0 < ended < len(prepared):
            fate = f"{ended} rolled back, because they locked what Ramet changes; the others are {fate}"
        yield "Prepared transactions", f"{listed(prepared)}: {fate}"
    if own := facts.get("own_subscriptions"):
        yield "Source", f"{listed(own)}: dropped, so it does not follow the source of its parent"
    if names := facts.get("subscriptions"):
        yield "Subscriptions", f"{listed(names)}: disabled and detached"
    if jobs := facts.get("jobs"):
        yield "Scheduled jobs", f"{listed(jobs)}: paused"
    if mappings := facts.get("user_mappings"):
        yield "Foreign servers", f"{counted(mappings, 'user mapping')} emptied"
    if removed := facts.get("settings_removed"):
        yield "Settings", f"{listed(removed)}: removed, because they keep tsdbadmin from logging in"
    if closed := facts.get("databases_not_entered"):
        yield "Not entered", f"{listed(closed)}: these databases accept no connections"
    if rotated := facts.get("roles_rotated"):
        yield "Passwords", f"of {counted(rotated, 'login role')} replaced; only the new one of tsdbadmin is known"
