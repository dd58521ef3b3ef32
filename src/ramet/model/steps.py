"""The steps of a procedure, each with its title, which clients see."""

from collections.abc import Mapping

# What a step of this name usually does.
_TITLES = {
    "settle": "Wait for other operations",
    "initialize": "Create an empty cluster",
    "capture": "Copy the service's data",
    "recover": "Recover to the restore point",
    "boot": "Start the server",
    "serve": "Start the server",
    "start": "Start the new version",
    "stop": "Stop the server",
    "secure": "Set its credentials",
    "analyze": "Collect statistics",
    "snapshot": "Take the first snapshot",
    "fetch": "Copy the source with pg_basebackup",
    "replicate": "Copy the service's data",
    "upgrade": "Run pg_upgrade",
    "complete": "Complete the new version",
    "publish": "Open the endpoint",
    "open": "Open the endpoint",
    "follow": "Start or stop the pooler",
}


def steps(names: str, **titles: str) -> Mapping[str, str]:
    """Return steps in order, with the usual titles except for those that are given."""
    return {name: titles.get(name) or _TITLES[name] for name in names.split()}
