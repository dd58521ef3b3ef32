"""The schemas of settings of PostgreSQL that a service has of its own."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.shared import Body

Value = Annotated[
    str | int | float | bool | None,
    Meta(description="As in postgresql.conf, such as '64MB', '30s', 1.1 or on; null resets the setting."),
]


class Setting(Struct, frozen=True):
    """A setting that a service can have of its own."""

    name: Annotated[str, Meta(description="PostgreSQL's.")]
    value: Annotated[str | None, Meta(description="The service's own value; null if it has none.")]
    in_force: Annotated[str | None, Meta(description="What new sessions get; null if the server was not asked.")]
    pending_restart: Annotated[bool, Meta(description="Another value waits for a restart of the server.")]
    needs_restart: bool
    accepts: Annotated[str, Meta(description="The values that are accepted, as words.")]
    description: Annotated[str | None, Meta(description="PostgreSQL's; null if the server was not asked.")]


class Settings(Struct, frozen=True):
    """All settings that a service can have of its own."""

    settings: list[Setting]


class SettingsUpdate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that are not named stay as they are."""

    settings: Annotated[dict[str, Value], Meta(description="Values by the names of settings.")]
    restart: (
        Annotated[bool, Meta(description="A boolean: restart the server if a setting needs it; false by default.")]
        | None
    ) = None
