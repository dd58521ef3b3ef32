"""How a dump's table of contents is divided."""

from ramet.backends.interface.sources import Locale, SourceFacts, SourcePublication
from ramet.backends.local.sources.contents import count_tables, divide

LISTING = """;
; Archive created at 2026-11-22
;     dbname: shop
2; 3079 16400 EXTENSION - hstore
3500; 0 0 COMMENT - EXTENSION hstore
6; 2615 16390 SCHEMA - app app_owner
3501; 0 0 COMMENT - SCHEMA app app_owner
215; 1259 16500 TABLE app orders app_rw
3400; 0 16500 TABLE DATA app orders app_rw
230; 1259 16600 MATERIALIZED VIEW app counted app_rw
3401; 0 16600 MATERIALIZED VIEW DATA app counted app_rw
3300; 3466 16700 EVENT TRIGGER - watched postgres
3301; 6104 16800 PUBLICATION - pub postgres
3302; 6104 16801 PUBLICATION - everything postgres
3502; 0 0 COMMENT - PUBLICATION everything postgres
3503; 0 0 COMMENT - PUBLICATION pub postgres
3303; 6106 16802 PUBLICATION TABLE app pub orders app_rw
3304; 6106 16803 PUBLICATION TABLE app everything orders app_rw
3305; 6237 16804 PUBLICATION TABLES IN SCHEMA app everything postgres
3600; 0 0 ACL app TABLE orders app_rw
3601; 826 16900 DEFAULT ACL app DEFAULT PRIVILEGES FOR TABLES app_owner
"""
PUBLICATIONS = (
    SourcePublication(16800, "pub", needs_superuser=False, relation_oids=(16802,)),
    SourcePublication(16801, "everything", needs_superuser=True, relation_oids=(16803,)),
)
LOCALE = Locale("UTF8", "libc", "C", "C")
FACTS = SourceFacts("15.4", 15, LOCALE, 1, 1, 0, "postgres", 0, publications=PUBLICATIONS)


def test_what_only_superusers_own_is_left_out_and_the_rest_is_in_order() -> None:
    found = divide(LISTING, FACTS)
    assert [line.split(";")[0] for line in found.schemas] == ["6"]
    assert [line.split(";")[0] for line in found.objects] == ["3501", "215", "3400", "230", "3301", "3503", "3303"]
    assert [line.split(";")[0] for line in found.privileges] == ["3600", "3601"]
    assert [line.split(";")[0] for line in found.refreshes] == ["3401"]
    assert count_tables(found) == 1
