"""What helps against what PostgreSQL refuses: its own hint, and what follows from how statements are run here."""

import psycopg

MAY_HAVE_RUN = "It may have been carried out: look first."
FOR_LONGER = "Choose more seconds, or ask for less."


def remedy_for(error: psycopg.Error, *, to_write: str, for_longer: str) -> str:
    """Return what helps, or nothing; `to_write` and `for_longer` say how the caller asks for these."""
    said = error.diag.message_primary or ""
    known = {
        "25001": to_write,
        "25006": to_write,
        "42501": "The role of this login may not do that.",
        "42601": "Send one statement at a time." if "multiple commands" in said else "",
        "57014": for_longer if "timeout" in said else "",
    }
    return " ".join(one for one in (error.diag.message_hint, known.get(error.sqlstate or "")) if one)
