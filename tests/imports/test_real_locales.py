"""Encodings and locales of imported databases: kept, or turned into UTF8 where nothing is lost."""

import pytest

from harness.instance import Instance, connect
from ramet.machine.installation import find_installations
from tests.sources import MAJORS, PASSWORD, open_source

pytestmark = pytest.mark.slow
_BUILTIN_SINCE = 17
OWN = find_installations().default.major
CASES = [
    pytest.param(OWN, "ENCODING 'LATIN1' LOCALE 'C'", ("UTF8", "c", "C"), id="LATIN1"),
    pytest.param(OWN, "LOCALE_PROVIDER icu ICU_LOCALE 'de-DE' LOCALE 'C.UTF-8'", ("UTF8", "i", "C.UTF-8"), id="ICU"),
]
if max(MAJORS) >= _BUILTIN_SINCE:
    builtin = "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'"
    CASES.append(pytest.param(max(MAJORS), builtin, ("UTF8", "b", "C"), id="builtin"))


@pytest.mark.parametrize(("major", "options", "expected"), CASES)
def test_a_database_keeps_its_locale_and_its_text(
    ramet: Instance, major: int, options: str, expected: tuple[str, str, str]
) -> None:
    with open_source(major) as source, ramet.client() as client:
        source.run(f"CREATE DATABASE other TEMPLATE template0 {options}", "postgres")
        source.run("CREATE TABLE words AS SELECT unnest('{Zoë,ärger,apfel}'::text[]) AS word", "other")
        accepted = client.import_service("other", source.url("other"), PASSWORD)
        client.wait_ready(accepted.service_id, timeout_seconds=120)
        with connect(accepted.endpoint.port, str(accepted.initial_password)) as service, source.connect("other") as own:
            query = "SELECT array_agg(word ORDER BY word) FROM words"
            assert service.execute(query).fetchone() == own.execute(query).fetchone()
            kept = (
                "SELECT pg_encoding_to_char(encoding), datlocprovider::text, datcollate"
                " FROM pg_database WHERE datname = 'tsdb'"
            )
            assert service.execute(kept).fetchone() == expected
        client.delete_service(accepted.service_id)
        client.wait_deleted(accepted.service_id, timeout_seconds=120)
