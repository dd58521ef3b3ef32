"""The connection strings of the console: as the command line makes them, for every kind of endpoint."""

import html

import pytest

from ramet.store import services
from tests.console.visitor import Visitor


@pytest.mark.parametrize(("tls", "mode"), [(True, "require"), (False, "disable")])
def test_connection_strings_have_ipv6_brackets_and_the_right_sslmode(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch, tls: bool, mode: str
) -> None:
    monkeypatch.setattr(visitor.world.backend.host, "has_tls", lambda _major: tls)
    visitor.sign_in()
    created = visitor.send("/console/new", name="shop", service_type="POSTGRES", size="shared", environment="DEV")
    assert f"/tsdb?sslmode={mode}" in html.unescape(created.text)
    shop = visitor.settled("shop")
    with visitor.world.runtime.store.write() as tx:
        services.update_service(tx, shop.id, host="::1", pooler_port=16000)
    shown = html.unescape(visitor.see(f"/console/services/{shop.id}"))
    for port in (shop.port, 16000):
        assert f"postgresql://tsdbadmin@[::1]:{port}/tsdb?sslmode={mode}" in shown
    assert f"PGHOST=::1 PGPORT={shop.port} PGUSER=tsdbadmin PGDATABASE=tsdb PGSSLMODE={mode}" in shown
