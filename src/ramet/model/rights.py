"""What each operation needs, and what each role of a key has: the one table that the interface and the console obey.

An operation is known by its operation id in openapi.json. A route or a page whose operation is not in `RIGHTS` is
refused to everybody, and fails tests/api/test_rights.py.
"""

import re
from collections.abc import Mapping
from enum import StrEnum

from ramet.errors import Forbidden


class Right(StrEnum):
    """What a key may do. READ, CONNECT, FORK and KEEP of a forker are about its own forks only."""

    IDENTIFY = "IDENTIFY"
    """What a key may know of itself."""
    READ = "READ"
    """Services that the key sees, one by one or as a list."""
    READ_PROJECT = "READ_PROJECT"
    """What belongs to the project as a whole."""
    CONNECT = "CONNECT"
    """A login of one's own in the database of a service."""
    FORK = "FORK"
    """A new service with the data of another one."""
    KEEP = "KEEP"
    """Upkeep of a service: delete, pause, rename, rewind it, and so on; nothing that makes another one."""
    CHANGE = "CHANGE"
    """All else that changes services, or makes them."""
    ADMINISTER = "ADMINISTER"
    """Keys, protection, who receives events, what runs in advance, and what leaves for another Ramet."""


class Role(StrEnum):
    """The purpose of a key."""

    VIEWER = "VIEWER"
    FORKER = "FORKER"
    DEVELOPER = "DEVELOPER"
    ADMIN = "ADMIN"


RIGHTS_OF: Mapping[Role, frozenset[Right]] = {
    Role.VIEWER: frozenset({Right.IDENTIFY, Right.READ, Right.READ_PROJECT, Right.CONNECT}),
    Role.FORKER: frozenset({Right.IDENTIFY, Right.READ, Right.CONNECT, Right.FORK, Right.KEEP}),
    Role.DEVELOPER: frozenset(set(Right) - {Right.ADMINISTER}),
    Role.ADMIN: frozenset(Right),
}

_OPERATIONS: Mapping[Right, str] = {
    Right.IDENTIFY: "getAuthInfo getCertificateAuthority getProjects identifyUser logout trackEvent",
    Right.READ: """
        getActivity getArchive getDeletedServices getForkReport getImportReport getMove getMoves
        getOperations getReplicaSets getReplication getRestore getRestoreWindow getRestores getService getServiceLogs
        getServiceMetricsAvailableSeries getServiceMetricsSeries getServiceOperations getServices getSettings
        getSnapshots getTables getTopStatements getUpgrade getUpgrades getWarmForks
    """,
    Right.READ_PROJECT: "getEvents getProjectLimits getVPC getVPCPeering getVPCPeerings getVPCs",
    Right.CONNECT: "createLogin getLogins revokeLogin",
    Right.FORK: "forkService forkServices",
    Right.KEEP: """
        createCheckpoint deleteService deleteSnapshot extendService renameService rewindService startService stopService
        updateLabels updatePassword
    """,
    Right.CHANGE: """
        attachServiceToVPC createReplicaSet createService createSnapshot createVPC createVPCPeering
        deleteReplicaSet deleteVPC deleteVPCPeering detachServiceFromVPC disablePooler
        disableReplicaPooler enablePooler enableReplicaPooler followDatabase importService optimizeService
        promoteService renameVPC resetService resizeReplicaSet resizeService restoreService
        setEnvironment setHAReplica setReplicaEnvironment setSleep setWalLevel updateArchive updateExtensions
        updateRestoreSettings updateSettings upgradeService
    """,
    Right.ADMINISTER: """
        cancelMove createKey createWebhook deleteWarmForks deleteWebhook getAudit getKey getKeys getWebhook
        getWebhookDeliveries getWebhooks moveService redeliverWebhook revokeKey rotateKey rotateWebhookSecret
        setProtection setWarmForks testWebhook updateKey updateWebhook
    """,
}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
RIGHTS: Mapping[str, Right] = {name: right for right, names in _OPERATIONS.items() for name in names.split()}


def not_allowed(role: Role, operation: str) -> Forbidden:
    """Return the refusal of an operation to a role."""
    needed = " or ".join(one for one in Role if allows(one, operation))
    words = " ".join(word if word.isupper() else word.lower() for word in _WORD.findall(operation))
    return Forbidden(
        "FORBIDDEN", f"A key with the role {role} may not do this: {words}", f"Use a key with the role {needed}."
    )


def allows(role: Role, operation: str) -> bool:
    """Tell whether a role has the right that an operation needs; nobody may do what is not in the table."""
    right = RIGHTS.get(operation)
    return right is not None and right in RIGHTS_OF[role]
