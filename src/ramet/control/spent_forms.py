"""Forms of the console that write: each runs once, in whichever process it arrives."""

from functools import partial

import sqlalchemy as sa

from ramet.control.plane import Plane
from ramet.errors import WrongState
from ramet.model.session import SESSION_LIFE, digest_token
from ramet.store import once


def begin_once(plane: Plane, public_key: str, form: str) -> None:
    """Let the current act be recorded as started, unless a key has begun the same form before. Raises WrongState.

    A form belongs to a session, and so is remembered for as long as one lasts.
    """
    plane.record("started", partial(_spend, plane, public_key, digest_token(form)))


def sent_twice() -> WrongState:
    """Return the error for a form that is sent again."""
    return WrongState(
        "SENT_TWICE",
        "This form was sent before, and its statement is running or was run",
        "Look what it did, then send this form to run it again.",
    )


def _spend(plane: Plane, public_key: str, digest: str, tx: sa.Connection) -> None:
    now = plane.clock()
    once.delete_expired_forms(tx, now)
    if not once.spend_form(tx, public_key, digest, now + SESSION_LIFE):
        raise sent_twice()
