"""The data directory that a command works on."""

from pathlib import Path

from ramet.configured import demand_not_lost, has_storage, has_store
from ramet.errors import NotFound
from ramet.settings import Settings, load_settings


def existing_data_dir(data_dir: Path | None, *, store: bool = True, storage: bool = False) -> Settings:
    """Return the settings for a data directory that has a store, storage, or both.

    Raises NotFound if it has not, and WrongState for a store that is lost.
    """
    settings = load_settings(data_dir=data_dir)
    is_without_store = store and not has_store(settings)
    if is_without_store:
        demand_not_lost(settings)
    if is_without_store or (storage and not has_storage(settings)):
        remedy = "Name one with --data, or create it with 'ramet up'."
        raise NotFound("NO_DATA_DIR", f"{settings.data_dir} is not a data directory of Ramet", remedy)
    return settings
