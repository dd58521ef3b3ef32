"""The connection strings of the console: as the command line makes them, for every kind of endpoint."""

import html
from pathlib import Path

import pytest

from ramet.backends.local.host.certificates import open_authority
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
    driver = "false" if mode == "disable" else '{"rejectUnauthorized": false}'
    for text in (
        f"jdbc:postgresql://[::1]:{shop.port}/tsdb?user=tsdbadmin&sslmode={mode}",
        f'psycopg.connect("postgresql://tsdbadmin@[::1]:{shop.port}/tsdb?sslmode={mode}")',
        f'"ssl": {driver}',
        f'pgx.Connect(ctx, "postgresql://tsdbadmin@[::1]:{shop.port}/tsdb?sslmode={mode}")',
        f"Host=::1;Port={shop.port};Database=tsdb;Username=tsdbadmin;SSL Mode={mode.title()}",
    ):
        assert text in shown, text
    assert f"PGHOST=::1 PGPORT={shop.port} PGUSER=tsdbadmin PGDATABASE=tsdb PGSSLMODE={mode}" in shown


def test_the_certificate_of_the_authority_is_offered_where_there_is_tls(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pem = open_authority(tmp_path).pem
    monkeypatch.setattr(visitor.world.backend, "authority", pem)
    visitor.sign_in()
    path, link = f"/console/services/{visitor.ready().id}", 'href="/console/certificate-authority"'
    monkeypatch.setattr(visitor.world.backend.host, "has_tls", lambda _major: False)
    assert link not in visitor.see(path)
    monkeypatch.setattr(visitor.world.backend.host, "has_tls", lambda _major: True)
    assert link in visitor.see(path)
    found = visitor.client.get("/console/certificate-authority")
    assert found.text == pem
    assert found.headers["content-disposition"] == 'attachment; filename="ramet-ca.crt"'


def test_a_backend_without_an_authority_says_so(visitor: Visitor) -> None:
    visitor.sign_in()
    assert "has no authority" in visitor.see("/console/certificate-authority", 400)
