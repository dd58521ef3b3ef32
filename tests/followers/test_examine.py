"""What is read of a real source before a standby of it is made."""

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.local.followers.examine import examine
from ramet.model.passwords import Secret
from tests.followers.conftest import PASSWORD, REPLICATOR
from tests.sources import Source


def _address(source: Source, database: str = "shop") -> SourceAddress:
    sslmode = "require" if source.installation.has_tls else "disable"
    return SourceAddress("localhost", source.own_port, database, REPLICATOR, sslmode=sslmode)


def test_it_is_read_whether_and_in_which_encoding_the_first_superuser_may_log_in(newest_source: Source) -> None:
    newest_source.run("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    before = examine(_address(newest_source), Secret(PASSWORD))
    newest_source.run("ALTER ROLE postgres NOLOGIN")
    after = examine(_address(newest_source, "latin"), Secret(PASSWORD))
    assert [(one.can_enter, one.encoding) for one in (before, after)] == [(True, "UTF8"), (False, "LATIN1")]


def test_the_platforms_database_counts_where_it_can_be_entered_also_as_a_template(newest_source: Source) -> None:
    address, found = _address(newest_source), []
    for change in ("IS_TEMPLATE true", "ALLOW_CONNECTIONS false"):
        newest_source.run(f"ALTER DATABASE postgres {change}")
        found.append(examine(address, Secret(PASSWORD)).databases)
    assert found == [("shop", "postgres"), ("shop",)]
