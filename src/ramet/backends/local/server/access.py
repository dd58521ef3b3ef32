"""Who may connect to a server: pg_hba.conf and pg_ident.conf, as pure functions."""

from collections.abc import Iterable, Iterator, Sequence

from ramet.backends.local.server.configuration import Features, Phase
from ramet.backends.local.sql.connections import ADMIN_ROLE, PLATFORM_ROLE, POOLER_ROLE
from ramet.backends.local.sql.withheld_roles import HOST_ROLES

_IDENT_MAP = "platform"
# The servers' own user may only stream: SQL in any of them can let its server connect to the sockets of all.
_STREAMING_MAP = "streaming"
_POOLER = f"local all {POOLER_ROLE} peer map={_IDENT_MAP}"
_EVERYWHERE = (("local all,replication", ""), ("host all,replication", " all"))


def pg_hba_conf(features: Features, phase: Phase) -> str:
    """Return pg_hba.conf: the platform and replicas may use the private socket, and when open, all others may connect.

    Clients connect over TCP, or through a pooler on the private socket, which passes on their authentication. No client
    may use physical replication, whatever the attributes of its role; logical replication connects to a database, as
    other clients do. In a copy that was not taken over yet neither the source's superusers may connect, nor the members
    of them and of roles that give access to the host: of such a role + matches those alone, not each superuser, and of
    a missing one nobody (PostgreSQL 18 docs, 20.1). The source may have a superuser with the platform's name, too.
    Where this file cannot name a superuser of the source, an open server admits nobody: members of it could become it.
    """
    rules = [
        *_own(PLATFORM_ROLE),
        f"host all {PLATFORM_ROLE} all reject",
        "local replication all reject",
        "host replication all all reject",
    ]
    if features.superusers:
        names = [_quoted_name(name) for name in features.superusers if can_name(name)]
        groups = (*names, PLATFORM_ROLE, *HOST_ROLES)
        rules = [*_own(names[0]), *_rejecting(map(_alone, names)), *rules, *_rejecting(f"+{role}" for role in groups)]
    if phase is Phase.OPEN:
        rules += _open_rules(features)
    if phase is Phase.LOADING:
        rules.append(f"local all {ADMIN_ROLE} peer map={_IDENT_MAP}")
    return "\n".join([*rules, "host all all all reject"]) + "\n"


def is_open(hba: str) -> bool:
    """Tell whether a pg_hba.conf is that of an open server, which has its pooler's role also where it admits nobody."""
    return _POOLER in hba.split("\n")


def can_name(role: str) -> bool:
    """Tell whether pg_hba.conf can name a role: a line ends at a line feed, also within quotes."""
    return "\n" not in role


def _own(role: str) -> list[str]:
    return [f"local all {role} peer map={_IDENT_MAP}", f"local replication {role} peer map={_STREAMING_MAP}"]


def _alone(name: str) -> str:
    """Return what matches a role by its quoted name: one that begins with / is a regular expression otherwise."""
    return f"+{name}" if name.startswith('"/') else name


def _rejecting(names: Iterable[str]) -> Iterator[str]:
    return (f"{kind} {name}{of} reject" for name in names for kind, of in _EVERYWHERE)


def _open_rules(features: Features) -> list[str]:
    rules = [_POOLER, f"host all {POOLER_ROLE} all reject"]
    if not all(map(can_name, features.superusers)):
        return rules
    rules.append("local all all scram-sha-256")
    if features.has_tls:
        return [*rules, "hostssl all all all scram-sha-256"]
    return [*rules, *(f"host all all {address} scram-sha-256" for address in ("127.0.0.1/32", "::1/128"))]


def pg_ident_conf(host_users: tuple[str, ...], phase: Phase = Phase.CLOSED, superusers: Sequence[str] = ()) -> str:
    """Return pg_ident.conf: the system users that may connect as the platform, and as the role of poolers.

    The first one is that of Ramet, and the last one that of the servers.
    """
    users = [_quoted_name(user) for user in dict.fromkeys(host_users)]
    own = [PLATFORM_ROLE, *(_quoted_name(name) for name in superusers[:1])]
    roles = (POOLER_ROLE, *([ADMIN_ROLE] if phase is Phase.LOADING else []))
    lines = [f"{_IDENT_MAP} {users[0]} {role}\n{_STREAMING_MAP} {users[-1]} {role}\n" for role in own]
    return "".join([*lines, *(f"{_IDENT_MAP} {user} {role}\n" for role in roles for user in users)])


def _quoted_name(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'
