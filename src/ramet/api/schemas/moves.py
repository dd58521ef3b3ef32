"""The schemas of moves to another Ramet: the request, and how far a move is."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.restores import Confirmation
from ramet.api.schemas.shared import Body, Endpoint, Identifier, Name, Timestamp
from ramet.model.status import OperationStatus

TargetUrl = Annotated[
    str,
    Meta(description="The URL of the other Ramet, a string such as https://ramet.example:8080; http to loopback only."),
]
TargetPublicKey = Annotated[
    str,
    Meta(description="The public key of an ADMIN of the project there, a string.", extra_json_schema={"minLength": 1}),
]
TargetSecretKey = Annotated[
    str, Meta(description="The secret key to it, a string. No response shows it.", extra_json_schema={"minLength": 1})
]
TargetAuthority = Annotated[
    str,
    Meta(
        description="The authority to verify the certificate of that Ramet with, as PEM; by default those that browsers"
        " know."
    ),
]
MoveId = Annotated[str, Meta(description="Identifier of the move.")]


class ServiceMove(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a service moves to. The key is stored encrypted, as long as the move is under way."""

    to_url: TargetUrl
    public_key: TargetPublicKey
    secret_key: TargetSecretKey
    certificate_authority: TargetAuthority | None = None
    name: Name | None = None
    confirm: Confirmation | None = None


class MoveCancel(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a move is called off."""

    target_is_lost: (
        Annotated[
            bool, Meta(description="true or false: the other Ramet does not answer, and will never open the service.")
        ]
        | None
    ) = None


class Move(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A move to another Ramet, and how far it is. What is not known yet is absent."""

    move_id: MoveId
    service_id: Identifier
    status: OperationStatus
    started_at: Timestamp
    to_url: str
    name: Annotated[str, Meta(description="The name of the service there.")]
    kept_as: Annotated[str, Meta(description="The name of the paused service that stays here.")]
    finished_at: Timestamp | None = None
    step: Annotated[str, Meta(description="What it does now.")] | None = None
    progress: str = ""
    error: Annotated[str, Meta(description="Why it failed.")] | None = None
    target_project_id: str | None = None
    target_service_id: str | None = None
    endpoint: Annotated[Endpoint, Meta(description="That of the service there, once it is open.")] | None = None
    decided: Annotated[bool, Meta(description="Only the other Ramet can tell where the service is.")] = False
    stopped_seconds: Annotated[float, Meta(description="How long the service did not answer.")] | None = None
    notes: Annotated[list[str], Meta(description="What the service could not take along.")] = []


class Moves(Struct, frozen=True):
    """The moves of a service, newest first."""

    moves: list[Move]
