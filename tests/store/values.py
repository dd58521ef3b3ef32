"""Values to store."""

import dataclasses
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.ids import new_id
from ramet.model.environment import Environment
from ramet.model.passwords import Secret
from ramet.model.project import Project
from ramet.model.service import Service
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.store import projects, services

NOW = datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=UTC)
_PLAIN = Service(
    id="",
    project_id="",
    name="shop",
    region_code="local",
    service_type=ServiceType.VECTOR,
    environment=Environment.PROD,
    size=Size(500, 2),
    volume_type="reflink",
    host="localhost",
    port=20000,
    pg_major=18,
    created_at=NOW,
    verifier=Secret("SCRAM-SHA-256$..."),
)


def a_project(tx: sa.Connection) -> Project:
    project = Project(new_id(), "demo", NOW)
    projects.insert_project(tx, project)
    return project


def a_service(tx: sa.Connection, project: Project, **columns: Any) -> Service:
    service = replace(_PLAIN, id=new_id(), project_id=project.id, **columns)
    services.insert_service(tx, service)
    return service


def a_snapshot(service: Service, **columns: Any) -> Snapshot:
    plain = Snapshot(new_id(), service.id, SnapshotKind.INITIAL, NOW, "0/3000028", "0/3000138", 1, 751, 31_457_280)
    return dataclasses.replace(plain, **columns)
