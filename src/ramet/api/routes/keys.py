"""The API keys of a project: made, changed, rotated and revoked by those of its admins."""

from functools import partial
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.params import JSONBody
from msgspec import UNSET

from ramet.api.parameters import ProjectId, PublicKeyInPath, Repeatable, RotationKey, checked_key
from ramet.api.responses import (
    OF_PROJECT,
    PlaneDependency,
    ProjectVerbs,
    answer,
    change,
    create,
    empty,
    read,
    remove,
    router_of,
    update,
)
from ramet.api.schemas.keys import Key, KeyCreate, KeyRotate, KeyUpdate, KeyWithSecret
from ramet.model.keys import OVERLAP_SECONDS, ApiKey, KeyLimits, derived_secret
from ramet.model.timestamps import parse_timestamp

_LIMITS = tuple(field.name for field in msgspec.structs.fields(KeyLimits))
_OWN = ("name", "expires_at")


@read("/keys", operation_id="getKeys", summary="List the keys of a project")
def list_keys(projects: ProjectVerbs, project_id: ProjectId) -> Response[list[Key]]:
    """Every key of the project, in the order of their creation, revoked ones too."""
    return answer([Key.of(each) for each in projects.list_keys(project_id)])


@create("/keys", operation_id="createKey", summary="Make a key")
def create_key(
    projects: ProjectVerbs, project_id: ProjectId, request: Request[Any, ApiKey, Any], data: JSONBody[KeyCreate]
) -> Response[KeyWithSecret]:
    """Make a key with a role. Only this response contains its secret."""
    given = {name: value for name in _LIMITS if (value := getattr(data, name)) is not None}
    made, secret = projects.create_key(
        project_id,
        data.name,
        projects.clock(),
        role=data.role,
        expires_at=None if data.expires_at is None else parse_timestamp("expires_at", data.expires_at),
        limits=msgspec.convert(given, KeyLimits),
        made_by=request.auth.public_key,
    )
    return answer(KeyWithSecret.with_secret(made, secret), 201)


@read("/keys/{public_key:str}", operation_id="getKey", summary="Get a key")
def get_key(projects: ProjectVerbs, project_id: ProjectId, public_key: PublicKeyInPath) -> Response[Key]:
    """One key of the project."""
    return answer(Key.of(projects.get_key(project_id, public_key)))


@update("/keys/{public_key:str}", operation_id="updateKey", summary="Change a key")
def update_key(
    projects: ProjectVerbs, project_id: ProjectId, public_key: PublicKeyInPath, data: JSONBody[KeyUpdate]
) -> Response[Key]:
    """Change name, expiry and limits of a key. Services that it has made are not affected."""
    changes = {name: value for name in (*_OWN, *_LIMITS) if (value := getattr(data, name)) is not UNSET}
    if isinstance(changes.get("expires_at"), str):
        changes["expires_at"] = parse_timestamp("expires_at", changes["expires_at"])
    if "parents" in changes:
        changes["parents"] = tuple(changes["parents"])
    return answer(Key.of(projects.change_key(project_id, public_key, projects.clock(), **changes)))


@change("/keys/{public_key:str}/rotate", operation_id="rotateKey", summary="Give a key another secret")
def rotate_key(
    plane: PlaneDependency,
    projects: ProjectVerbs,
    project_id: ProjectId,
    public_key: PublicKeyInPath,
    data: JSONBody[KeyRotate | None] = None,
    idempotency_key: RotationKey = None,
    repeatable: Repeatable = False,
) -> Response[KeyWithSecret]:
    """Give a key another secret; the present one is accepted for a while, too. Only this response contains it."""
    wanted = None if data is None else data.overlap_seconds
    overlap, mark = OVERLAP_SECONDS if wanted is None else wanted, checked_key(idempotency_key)
    derived = None if mark is None else partial(derived_secret, plane.root_key, public_key, mark)
    made = projects.rotate_key(project_id, public_key, overlap, projects.clock(), derived=derived)
    return answer(KeyWithSecret.with_secret(*made))


@remove("/keys/{public_key:str}", operation_id="revokeKey", summary="Revoke a key")
def revoke_key(projects: ProjectVerbs, project_id: ProjectId, public_key: PublicKeyInPath) -> Response[None]:
    """Revoke a key, and end its sessions in the console. Services that it has made stay."""
    projects.revoke_key_of(project_id, public_key, projects.clock())
    return empty(204)


keys_router = router_of(__name__, "Keys", OF_PROJECT)
