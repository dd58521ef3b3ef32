"""A typed, synchronous client of the HTTP interface, with helpers that wait.

with Client(base_url, project_id, public_key, secret_key) as ramet:
    fork = ramet.fork_service(parent_id, ForkStrategy.NOW)
    ramet.wait_ready(fork.service_id, timeout_seconds=60)
"""

from ramet.client.account import Account
from ramet.client.errors import ApiError, TimedOut, WaitFailed
from ramet.client.networks import Networks
from ramet.client.observation import Observation
from ramet.client.past import Past
from ramet.client.replicas import ReplicaSets
from ramet.client.services import Services
from ramet.client.waiting import Waiting

__all__ = ["ApiError", "Client", "TimedOut", "WaitFailed"]


class Client(Account, Services, Past, Observation, ReplicaSets, Networks, Waiting):
    """One project, through one API key. May be shared between threads."""
