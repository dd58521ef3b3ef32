"""A typed, synchronous client of the HTTP interface, with helpers that wait.

with Client(base_url, project_id, public_key, secret_key) as ramet:
    fork = ramet.fork_service(parent_id, ForkStrategy.NOW)
    ramet.wait_ready(fork.service_id, timeout_seconds=60)
"""

from ramet.client.account import Account
from ramet.client.archive import Archives
from ramet.client.audit import Audit
from ramet.client.errors import ApiError, TimedOut, WaitFailed
from ramet.client.events import EventsAndWebhooks
from ramet.client.following import Followers
from ramet.client.forks import Forks
from ramet.client.imports import Imports
from ramet.client.insight import Insight
from ramet.client.keys import Keys
from ramet.client.life_spans import Keeping, LifeSpans
from ramet.client.moves import MovesElsewhere
from ramet.client.observation import Observation
from ramet.client.replica_sets import ReplicaSets
from ramet.client.replication import Replications
from ramet.client.restore import Restore
from ramet.client.restores import RestoresInPlace
from ramet.client.services import Services
from ramet.client.settings import ServiceSettings
from ramet.client.upgrades import MajorUpgrades
from ramet.client.vpcs import Vpcs
from ramet.client.waiting import Waiting
from ramet.client.warm_forks import WarmForkPools
from ramet.model.fork import ForkStrategy
from ramet.model.secret import Secret

__all__ = ["ApiError", "Client", "ForkStrategy", "Keeping", "Secret", "TimedOut", "WaitFailed"]


class Client(
    Account,
    Keys,
    Services,
    Forks,
    LifeSpans,
    Imports,
    Followers,
    MajorUpgrades,
    MovesElsewhere,
    Restore,
    RestoresInPlace,
    Archives,
    Observation,
    Insight,
    ServiceSettings,
    Audit,
    EventsAndWebhooks,
    ReplicaSets,
    Replications,
    Vpcs,
    WarmForkPools,
    Waiting,
):
    """One project, through one API key. May be shared between threads."""
