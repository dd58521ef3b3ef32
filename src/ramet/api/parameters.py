"""The parameters that several operations have, and the checks of parameters.

Litestar reads parameters by their types. What only the document states is in `schema_extra`: an id of another form is
not found, not malformed.
"""

import re
from collections import Counter
from functools import cache
from typing import Annotated
from urllib.parse import parse_qsl

from litestar.handlers import BaseRouteHandler
from litestar.params import HeaderParameter, PathParameter, QueryParameter

from ramet.api.auth import AnyConnection
from ramet.control.waits import LONGEST_SECONDS
from ramet.errors import Invalid
from ramet.likeness import suggestion
from ramet.model.cursor import LARGEST_PAGE, PAGE

_ID = {"pattern": "^[a-z0-9]{10}$"}
ProjectId = Annotated[str, PathParameter(description="Identifier of the project.", schema_extra=_ID)]
ServiceId = Annotated[str, PathParameter(description="Identifier of the service.", schema_extra=_ID)]
SetId = Annotated[str, PathParameter(description="Identifier of the read replica set.", schema_extra=_ID)]
SnapshotId = Annotated[str, PathParameter(description="Identifier of the snapshot.", schema_extra=_ID)]
RestoreId = Annotated[str, PathParameter(description="Identifier of the restore.", schema_extra=_ID)]
MoveId = Annotated[str, PathParameter(description="Identifier of the move.", schema_extra=_ID)]
UpgradeId = Annotated[str, PathParameter(description="Identifier of the upgrade.", schema_extra=_ID)]
PublicKeyInPath = Annotated[str, PathParameter(description="Public key.", schema_extra={"pattern": "^RK[A-Z0-9]{18}$"})]
LoginRole = Annotated[
    str, PathParameter(description="Role of the login.", schema_extra={"pattern": "^ramet_login_[a-z0-9]{10}$"})
]
Limit = Annotated[
    int,
    QueryParameter(
        name="limit",
        description=f"1 to {LARGEST_PAGE}; {PAGE} by default.",
        schema_extra={"minimum": 1, "maximum": LARGEST_PAGE},
    ),
]
OptionalLimit = Annotated[
    int | None,
    QueryParameter(
        name="limit",
        required=False,
        description=f'1 to {LARGEST_PAGE}: a page of so many. `Link: <?…>; rel="next"` (RFC 8288) leads to the next '
        "page, and is absent on the last one. Without `limit` the list is complete.",
        schema_extra={"minimum": 1, "maximum": LARGEST_PAGE},
    ),
]
CursorOfLink = Annotated[
    str | None,
    QueryParameter(
        name="cursor",
        required=False,
        description="As in the `Link` of the page before: only what follows that page.",
        schema_extra={"minLength": 1},
    ),
]
Cursor = Annotated[
    str | None,
    QueryParameter(
        name="cursor", required=False, description="The last_cursor of the page before.", schema_extra={"minLength": 1}
    ),
]
Prefer = Annotated[
    str | None,
    HeaderParameter(
        name="Prefer",
        required=False,
        description="As in RFC 7240. With wait=10 the response comes when the operation that the status shows is over, "
        f"or after 10 seconds; at most {LONGEST_SECONDS}. `Preference-Applied` says what was applied.",
        schema_extra={"maxLength": 200},
    ),
]
_WAIT = re.compile(r'(?:^|,)\s*wait\s*=\s*"?(\d{1,9})"?\s*(?=$|[,;])', re.IGNORECASE)

_READING = ("GET", "HEAD", "OPTIONS")
_SHOWN_CHARACTERS = 60
_SHOWN_NAMES = 5
_KEY_LIMIT = 255
DryRun = Annotated[
    bool,
    QueryParameter(
        name="dry_run", required=False, description="Examine the source and return the report, and create nothing."
    ),
]
IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        required=False,
        description="1 to 255 visible ASCII characters, random: the same key and body answer with the same service. "
        "`initial_password` is left out when it is known not to open the service any more.",
        schema_extra={"minLength": 1, "maxLength": _KEY_LIMIT, "pattern": "^[!-~]+$"},
    ),
]

RotationKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        required=False,
        description="1 to 255 visible ASCII characters, random: the same key answers with the same secret, as long as "
        "that is the present one.",
        schema_extra={"minLength": 1, "maxLength": _KEY_LIMIT, "pattern": "^[!-~]+$"},
    ),
]
Repeatable = Annotated[
    bool,
    QueryParameter(
        name="repeatable",
        required=False,
        description="Changes nothing, but earlier releases refuse it (UNKNOWN_PARAMETER): they ignore `Idempotency-Key`"
        " here, and a repetition would end the present secret.",
    ),
]


async def check_parameters(connection: AnyConnection, handler: BaseRouteHandler) -> None:
    """Refuse unknown and repeated query parameters where an operation changes something. Raises Invalid.

    A mistyped `dry_run` must not make a real fork. Operations that only read ignore unknown ones: clients send what
    other servers of this interface know. It is no plain function: Litestar calls such guards in a thread.
    """
    query = connection.scope["query_string"]
    if not query or connection.scope.get("method") in _READING:
        return
    sent = Counter(name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    known = [str(found.name) for found in query_parameters(handler).values()]
    if unknown := [name for name in sent if name not in known]:
        remedy = f"{suggestion(unknown[0], known)}It knows {', '.join(known)}." if known else "It knows none."
        raise Invalid("UNKNOWN_PARAMETER", f"The operation has no query parameter {_shown(unknown)}", remedy)
    if repeated := [name for name, count in sent.items() if count > 1]:
        raise Invalid("REPEATED_PARAMETER", f"The query parameter {_shown(repeated)} is repeated", "Send it once.")


def invalid_parameter(definition: QueryParameter, values: list[str]) -> Invalid:
    """Return the error for values that a query parameter does not take."""
    found = ", ".join(repr(value[:_SHOWN_CHARACTERS]) for value in values[:_SHOWN_NAMES])
    return Invalid(
        "INVALID_PARAMETER", f"Invalid value for {definition.name}: {found}", definition.description or "Leave it out."
    )


@cache
def query_parameters(handler: BaseRouteHandler) -> dict[str, QueryParameter]:
    """Return the query parameters of a handler by the names of its arguments."""
    fields = handler.parsed_fn_signature.parameters
    declared = {name: field.kwarg_definition for name, field in fields.items()}
    return {name: found for name, found in declared.items() if isinstance(found, QueryParameter)}


def _shown(names: list[str]) -> str:
    more = ", …" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(repr(name[:_SHOWN_CHARACTERS]) for name in names[:_SHOWN_NAMES]) + more


def preferred_wait(prefer: str | None) -> int:
    """Return how many seconds a Prefer header lets a response wait: 0 without that preference, or an invalid one."""
    found = _WAIT.search(prefer or "")
    return 0 if found is None else min(int(found[1]), LONGEST_SECONDS)


def checked_key(key: str | None) -> str | None:
    """Return an idempotency key. Raises Invalid."""
    if key is not None and not (1 <= len(key) <= _KEY_LIMIT and all("!" <= letter <= "~" for letter in key)):
        raise Invalid(
            "INVALID_IDEMPOTENCY_KEY",
            f"Idempotency-Key must be 1 to {_KEY_LIMIT} visible ASCII characters (got {key[:40]!r})",
            "Send a random one, for example a UUID.",
        )
    return key
