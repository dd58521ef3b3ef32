"""What speaks against moving a service, as things are."""

from collections.abc import Iterator, Sequence

from ramet.backends.interface.replication import ReplicationSlot
from ramet.control.lookup import check_independent
from ramet.errors import WrongState
from ramet.model.high_availability import NO_STANDBYS, standbys_of
from ramet.model.labels import MOST_LABELS
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service


def check_can_move(
    service: Service, sets: Sequence[ReplicaSet], slots: Sequence[ReplicationSlot], *, is_copied: bool = False
) -> None:
    """Raise WrongState for a service that another Ramet cannot take over as it is, with all reasons.

    `is_copied`: its copy has the labels already, and the one of the move beside them.
    """
    check_independent(service, "move")
    found = list(_reasons(service, sets, slots))
    if len(service.labels) >= MOST_LABELS and not is_copied:
        found.append((f"it has {MOST_LABELS} labels, and has one more there while it moves", "Remove a label."))
    if found:
        raise WrongState(
            "CANNOT_MOVE",
            f"Service {service.id} cannot be moved: {'; '.join(reason for reason, _ in found)}",
            " ".join(remedy for _, remedy in found),
        )


def _reasons(
    service: Service, sets: Sequence[ReplicaSet], slots: Sequence[ReplicationSlot]
) -> Iterator[tuple[str, str]]:
    if sets:
        yield (
            f"it has the read replica sets {', '.join(one.name for one in sets)}, which follow it here",
            "Delete the read replica sets, and make them again after the move.",
        )
    if slots:
        yield (
            f"it has the replication slots {', '.join(one.name for one in slots)}, whose readers would lose changes",
            "Drop the slots, and let their readers begin again after the move.",
        )
    if service.sleep_after_seconds is not None:
        yield "it falls asleep when no client is connected", "Switch that off with 'ramet service sleep --never'."
    if standbys_of(service.settings) != NO_STANDBYS:
        yield "it is highly available", "Set its replicas to 0 with 'ramet service set-ha', and set them there again."
