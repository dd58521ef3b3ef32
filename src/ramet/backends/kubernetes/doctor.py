"""What a cluster has for services, and what is missing, in sentences."""

import socket
from collections.abc import Callable, Iterator, Sequence

from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import Cluster, ObjectStore, SnapshotClass, StorageClass, Volume
from ramet.backends.kubernetes.site import OPERATOR, Exposure, Forks
from ramet.errors import Error, Failed

_DEFAULT_SNAPSHOTS = "snapshot.storage.kubernetes.io/is-default-class"
_CNPG, _SNAPSHOTS, _BARMAN = "postgresql.cnpg.io", "snapshot.storage.k8s.io", "barmancloud.cnpg.io"
_OPERATOR_VERSION = "cnpg.io/operatorVersion"
_COPY_INSTEAD = "Or set RAMET_KUBERNETES_FORKS=copy, to fork by copies of all data."
_COST = "a fork is a copy of its parent by pg_basebackup, and takes the time and the room of all data."
_NO_PAST = "cannot be restored to any past time."
_SNAPSHOTS_ONLY = "can be restored to the times of snapshots only."
_PAST_IN_ARCHIVE = "Past times come from base backups in the archive, of services that are archived."
# What Ramet does in its namespace, as (verb, group, resource).
RIGHTS = (
    *((verb, _CNPG, "clusters") for verb in ("get", "list", "watch", "create", "patch", "delete")),
    ("patch", _CNPG, "clusters/status"),
    *((verb, _CNPG, "backups") for verb in ("list", "delete")),
    *((verb, _SNAPSHOTS, "volumesnapshots") for verb in ("get", "list", "create", "patch", "delete")),
    *((verb, "", "persistentvolumeclaims") for verb in ("get", "list", "create", "patch", "delete")),
    *((verb, "", "services") for verb in ("get", "list", "create", "patch", "delete")),
    *((verb, "apps", "deployments") for verb in ("list", "create", "patch", "delete")),
    *((verb, "", "configmaps") for verb in ("list", "create", "patch", "delete")),
    *((verb, "", "secrets") for verb in ("get", "list", "create", "patch", "delete")),
    *((verb, "", "pods") for verb in ("get", "list", "watch", "create", "patch", "delete")),
    *((verb, "networking.k8s.io", "networkpolicies") for verb in ("get", "list", "create", "patch", "delete")),
    ("get", "", "pods/exec"),
    ("create", "", "pods/exec"),
    ("get", "", "pods/log"),
    ("list", "", "events"),
)
# What it does beside that with an archive.
OF_ARCHIVE = (
    *((verb, _CNPG, "backups") for verb in ("get", "create", "patch")),
    *((verb, _BARMAN, "objectstores") for verb in ("list", "create", "patch")),
)
# What it does beside that where each project has a namespace.
OF_NAMESPACES = tuple((verb, "", "namespaces") for verb in ("get", "create", "patch"))


def examine(place: Place) -> Sequence[tuple[str, str]]:
    """Return what there is, as (title, sentence) rows; a problem is said in its row."""
    rows: tuple[tuple[str, Callable[[Place], str]], ...] = (
        ("kubernetes", _kubernetes),
        ("rights", _rights),
        ("operator", _operator),
        ("storage", _storage),
        ("snapshots", _snapshots),
        ("images", _images),
        ("archive", _archive),
        ("endpoints", _endpoints),
        ("names", _names),
    )
    return [(title, _said(place, examine_one)) for title, examine_one in rows]


def _said(place: Place, examine_one: Callable[[Place], str]) -> str:
    try:
        return examine_one(place)
    except Error as error:
        return f"Cannot be examined: {error}."


def rights(*, by_project: bool, archive: bool = False) -> Sequence[tuple[str, str, str]]:
    """Return the rights that Ramet needs: in its namespace, or in all where each project has one."""
    return (*RIGHTS, *(OF_ARCHIVE if archive else ()), *(OF_NAMESPACES if by_project else ()))


def _kubernetes(place: Place) -> str:
    version, name = place.api.version(), place.site.namespace
    if place.api.namespaces.is_by_project:
        return f"{version}, namespace {name} for each project."
    if not place.api.has_namespace(name):
        return f"{version}, but there is no namespace {name}. Create it: kubectl create namespace {name}."
    return f"{version}, namespace {name}."


def _rights(place: Place) -> str:
    by_project = place.api.namespaces.is_by_project
    needed = rights(by_project=by_project, archive=place.site.archive is not None)
    missing = [f"{verb} {resource}" for verb, group, resource in needed if not place.api.may(verb, group, resource)]
    if missing and by_project:
        return f"Missing in all namespaces: {', '.join(missing)}. Grant them by a ClusterRole."
    if missing:
        return f"Missing in namespace {place.site.namespace}: {', '.join(missing)}. Grant them by a Role."
    return "All that Ramet needs in its namespaces." if by_project else "All that Ramet needs in its namespace."


def _operator(place: Place) -> str:
    try:
        known = place.api.find(Cluster, {})
    except Failed as error:
        if error.code == "KUBERNETES_NOT_FOUND":
            return f"CloudNativePG is not installed: Clusters are unknown here. Install release {OPERATOR}."
        raise
    found = sorted({one.metadata.annotations.get(_OPERATOR_VERSION, "") for one in place.api.find(Volume, {})} - {""})
    others = [one for one in found if not one.startswith(f"{OPERATOR}.")]
    release = f", release {', '.join(found)}" if found else ""
    said = f"CloudNativePG is installed{release}, with {len(known)} clusters here."
    if others:
        return f"{said} Forks rely on the code of release {OPERATOR}: try one before you trust them."
    return f"{said} Ramet is tested with release {OPERATOR}."


def _storage(place: Place) -> str:
    known = place.api.find_global(StorageClass)
    wanted = place.site.storage_class
    found = [one for one in known if one.is_used(wanted)]
    if not found:
        what = f"storage class {wanted}" if wanted else "default storage class"
        there = ", ".join(one.metadata.name for one in known) or "none"
        return f"There is no {what}. Set RAMET_KUBERNETES_STORAGE_CLASS to one of these: {there}."
    grow = "can grow" if found[0].can_grow else "cannot grow: allowVolumeExpansion of the class is not set"
    by = f"by {found[0].provisioner}, of {place.site.volume_gbs} GiB"
    return f"Volumes of class {found[0].metadata.name}, {by}. They {grow}."


def _snapshots(place: Place) -> str:
    if place.site.forks is Forks.COPY:
        past = "" if place.bucket is None else f" {_PAST_IN_ARCHIVE}"
        return f"Not used: with RAMET_KUBERNETES_FORKS=copy {_COST}{past}"
    try:
        known = place.api.find_global(SnapshotClass)
    except Failed as error:
        if error.code == "KUBERNETES_NOT_FOUND":
            return f"VolumeSnapshots are unknown here. Install the snapshot controller. {_COPY_INSTEAD}"
        raise
    wanted = place.site.snapshot_class
    drivers = {one.provisioner for one in place.api.find_global(StorageClass) if one.is_used(place.site.storage_class)}
    fitting = list(_fitting(known, wanted, drivers))
    if not fitting:
        names = ", ".join(f"{one.metadata.name} of {one.driver}" for one in known) or "none"
        return f"No snapshot class fits the volumes, so nothing can be forked. There are: {names}. {_COPY_INSTEAD}"
    return f"Forks begin with snapshots of class {fitting[0].metadata.name}, by {fitting[0].driver}."


def _fitting(known: Sequence[SnapshotClass], wanted: str, drivers: set[str]) -> Iterator[SnapshotClass]:
    for one in known:
        is_chosen = one.metadata.name == wanted or (
            not wanted and one.metadata.annotations.get(_DEFAULT_SNAPSHOTS) == "true"
        )
        if is_chosen and one.driver in drivers:
            yield one


def _images(place: Place) -> str:
    return ", ".join(place.site.image_of(major) for major in sorted(place.site.majors)) + "."


def _archive(place: Place) -> str:
    if place.bucket is None:
        what = _NO_PAST if place.site.forks is Forks.COPY else _SNAPSHOTS_ONLY
        return f"None: RAMET_ARCHIVE_URL is not set, so services {what}"
    try:
        place.api.find_in(ObjectStore, place.api.namespaces.watched)
    except Failed as error:
        if error.code == "KUBERNETES_NOT_FOUND":
            return "The Barman plugin of CloudNativePG is not installed: ObjectStores are unknown here. Install it."
        raise
    place.bucket.directories()
    return f"{place.bucket.url} can be read from here; pods reach it by the same address."


def _names(place: Place) -> str:
    if place.site.exposure is not Exposure.CLUSTER:
        return "Clients use the host that RAMET_ENDPOINT_HOST names."
    try:
        socket.getaddrinfo("kubernetes.default.svc", None)
    except OSError:
        return "Names of Services do not resolve here: only clients inside of the cluster reach services."
    return "Names of Services resolve here."


def _endpoints(place: Place) -> str:
    return f"Clients reach services by Services of the kind {place.site.exposure}."
