"""What is read of a real source before a standby of it is made."""

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.local.followers.examine import examine
from ramet.model.passwords import Secret
from tests.followers.conftest import PASSWORD, REPLICATOR
from tests.sources import Source


def test_the_platforms_database_counts_where_it_can_be_entered_also_as_a_template(newest_source: Source) -> None:
    sslmode = "require" if newest_source.installation.has_tls else "disable"
    address = SourceAddress("localhost", newest_source.own_port, "shop", REPLICATOR, sslmode=sslmode)
    found = []
    for change in ("IS_TEMPLATE true", "ALLOW_CONNECTIONS false"):
        newest_source.run(f"ALTER DATABASE postgres {change}")
        found.append(examine(address, Secret(PASSWORD)).databases)
    assert found == [("shop", "postgres"), ("shop",)]
