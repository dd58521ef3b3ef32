"""What `ramet down` does. Only this, so that it need not load what serves."""

from pathlib import Path

from ramet.cli.host import instance
from ramet.cli.host.data_dir import existing_data_dir
from ramet.cli.ui.output import say
from ramet.configured import backend_of

_END_SECONDS = 60.0
_REMEDY = "'ramet down' ends 'ramet up' only. End each 'ramet serve' and 'ramet worker' first, and try again."


def end_all(data_dir: Path | None) -> None:
    """End the `ramet up` of a data directory, and stop all its databases."""
    settings = existing_data_dir(data_dir, store=False, storage=True)
    ended = instance.end(settings.data_dir, _END_SECONDS)
    if ended is not None:
        say(f"ramet up (pid {ended.process.pid}) has stopped.")
    with instance.alone(settings.data_dir, _REMEDY):
        backend_of(settings).host.stop_all()
    if settings.backend == "kubernetes":
        say("The databases keep running in the cluster. 'ramet service stop' stops them one by one.")
    else:
        say(f"All databases of {settings.data_dir} are stopped. 'ramet up' starts them again.")
