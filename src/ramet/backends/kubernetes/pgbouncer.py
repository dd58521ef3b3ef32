"""The objects of a pooler: a PgBouncer in pods of its own, which has the session and the transaction pool.

A Pooler of CloudNativePG has one mode for all databases, and an endpoint of its own: docs/decisions says why it is not
used. Each login queries PostgreSQL for the role's SCRAM verifier, and no password is stored here.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import names
from ramet.backends.kubernetes.configuration import connections_of
from ramet.backends.kubernetes.exposure import service_of
from ramet.backends.kubernetes.site import Site
from ramet.backends.local.sql.connections import DATABASE, POOLER_ROLE
from ramet.backends.local.sql.pooler_logins import AUTH_QUERY, READ_ONLY_OPTIONS, TRANSACTION_POOL

Manifest = dict[str, Any]
CONTAINER = "pgbouncer"
_PORT = 5432
_CLIENTS = 2000
_NOT_POOLED = 15
_FILES, _SERVER, _CLIENT, _AUTHORITY = "/etc/pgbouncer", "/tls/server", "/tls/client", "/tls/authority"
_USER, _GROUP = 998, 996
# Without an entry the role would have an empty password, and a client that sends one would be let in as it. Nobody
# knows the password that this verifier is of.
_USERLIST = f'"{POOLER_ROLE}" "{{}}"\n'


def pgbouncer_ini(servers: Sequence[Server]) -> str:
    """Return the configuration. Half of the servers' connections stay available to the direct endpoint."""
    hosts = ",".join(names.writing_name(server.service_id) for server in servers)
    each = max(4, (connections_of(servers[0]) - _NOT_POOLED) // 2) * len(servers) // 2
    pool = f"host={hosts} port={_PORT} pool_size={each} max_db_connections={each} auth_user={POOLER_ROLE}"
    ignored = ["extra_float_digits", *(READ_ONLY_OPTIONS if servers[0].primary is not None else ())]
    settings = {
        "listen_addr": "*",
        "listen_port": str(_PORT),
        "unix_socket_dir": "",
        "log_connections": "0",
        "log_disconnections": "0",
        "log_stats": "0",
        "client_tls_sslmode": "require",
        "client_tls_cert_file": f"{_SERVER}/tls.crt",
        "client_tls_key_file": f"{_SERVER}/tls.key",
        "client_tls_ca_file": f"{_AUTHORITY}/ca.crt",
        "client_tls_protocols": "secure",
        # Of several hosts PgBouncer would compare the list with the name in each certificate. The authority issues
        # certificates for the servers of one service only.
        "server_tls_sslmode": "verify-full" if len(servers) == 1 else "verify-ca",
        "server_tls_ca_file": f"{_AUTHORITY}/ca.crt",
        "server_tls_cert_file": f"{_CLIENT}/tls.crt",
        "server_tls_key_file": f"{_CLIENT}/tls.key",
        "auth_type": "scram-sha-256",
        "auth_file": f"{_FILES}/userlist.txt",
        "auth_query": AUTH_QUERY,
        "admin_users": "",
        "stats_users": "",
        "max_client_conn": str(_CLIENTS),
        "max_prepared_statements": "200",
        "server_round_robin": str(int(len(servers) > 1)),
        "server_reset_query": "DISCARD ALL",
        "server_login_retry": "1",
        "server_lifetime": "3600",
        "server_idle_timeout": "600",
        "client_login_timeout": "15",
        "dns_max_ttl": "5",
        "tcp_keepalive": "1",
        "tcp_keepidle": "60",
        "tcp_keepintvl": "10",
        "tcp_keepcnt": "6",
        "ignore_startup_parameters": ",".join(ignored),
    }
    databases = [
        f"{DATABASE} = {pool} pool_mode=session",
        f"{TRANSACTION_POOL} = {pool} dbname={DATABASE} pool_mode=transaction",
    ]
    lines = [f"{name} = {value}" for name, value in settings.items()]
    return "\n".join(["[databases]", *databases, "[pgbouncer]", *lines]) + "\n"


def files(servers: Sequence[Server], unknown_verifier: str) -> Manifest:
    """Return the files of the pooler of the first server; nothing in them is secret."""
    own = {"pgbouncer.ini": pgbouncer_ini(servers), "userlist.txt": _USERLIST.format(unknown_verifier)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(_owner(servers)), "data": own}


def digest_of(text: str) -> str:
    """Return a digest of a file by which the pods of a pooler are replaced when it changes."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def deployment(servers: Sequence[Server], site: Site, certificate: str) -> Manifest:
    """Return what runs the pooler of the first server; another configuration replaces its pod without a gap.

    `certificate` is the digest of that server's certificate.
    """
    owner, writing = _owner(servers), _primary_of(servers[0])
    name, labels = names.pooler_name(owner), {**names.labels_of(owner), names.POOLER_LABEL: owner}
    digests = {"ramet/files": digest_of(pgbouncer_ini(servers)), names.CERTIFICATE_ANNOTATION: certificate}
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _GROUP,
            "fsGroup": _GROUP,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(site)],
        "volumes": [
            {"name": "files", "configMap": {"name": name}},
            {"name": "server", "secret": {"secretName": names.server_certificate_name(owner)}},
            {"name": "client", "secret": {"secretName": names.client_certificate_name(writing)}},
            {
                "name": "authority",
                "secret": {
                    "secretName": names.authority_name(writing),
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                },
            },
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(owner),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {names.POOLER_LABEL: owner}},
            "template": {"metadata": {"labels": labels, "annotations": digests}, "spec": pod},
        },
    }


def endpoint(servers: Sequence[Server], site: Site, port: int, host: str) -> Manifest:
    """Return the Service that clients of the pooler of the first server connect to."""
    owner = _owner(servers)
    return service_of(_metadata(owner), site, port, host, {names.POOLER_LABEL: owner})


def _container(site: Site) -> Manifest:
    mounts = {"files": _FILES, "server": _SERVER, "client": _CLIENT, "authority": _AUTHORITY}
    return {
        "name": CONTAINER,
        "image": site.pooler_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["pgbouncer", f"{_FILES}/pgbouncer.ini"],
        "ports": [{"name": "postgres", "containerPort": _PORT}],
        "readinessProbe": {"tcpSocket": {"port": _PORT}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": name, "mountPath": path, "readOnly": True} for name, path in mounts.items()],
    }


def _owner(servers: Sequence[Server]) -> str:
    return servers[0].service_id


def _primary_of(server: Server) -> str:
    return server.service_id if server.primary is None else server.primary.service_id


def _metadata(owner_id: str) -> Manifest:
    return {"name": names.pooler_name(owner_id), "labels": names.labels_of(owner_id)}
