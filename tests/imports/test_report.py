"""What an import is refused for, and what its report says, by facts alone."""

from dataclasses import replace

import pytest

from ramet.backends.interface.sources import Destination, Locale, SourceFacts, SourcePublication, SourceRole
from ramet.imports.findings import Effect, refusals
from ramet.imports.report import judge

GIB = 1024**3
PLAIN = SourceFacts("15.4", 15, Locale("UTF8", "libc", "C.UTF-8", "C.UTF-8"), GIB, 3, 0, "postgres", 1)
HERE = Destination(18, 18, 100 * GIB)
ON_15 = replace(HERE, pg_major=15)
WITHHELD = "pg_write_all_data"


def said(facts: SourceFacts, destination: Destination = HERE, *, owners: bool = True) -> dict[str, tuple[Effect, str]]:
    return {one.subject: (one.effect, one.message) for one in judge(facts, destination, owners=owners)}


def test_a_version_that_cannot_read_the_source_is_refused() -> None:
    (found,) = refusals(judge(replace(PLAIN, major=18), replace(HERE, pg_major=None), owners=True, pg_major=15))
    assert "pg_dump of version 15, which was asked for" in found.message
    assert "Ask for version 18 or later" in found.remedy


def test_a_plain_database_is_accepted() -> None:
    assert said(PLAIN) == {
        "owners": (Effect.CHANGED, "what postgres owns will belong to tsdbadmin"),
        "version": (Effect.NOTED, "PostgreSQL 15.4 becomes 18"),
    }


@pytest.mark.parametrize(
    ("facts", "destination", "subject", "words"),
    [
        (replace(PLAIN, version="19.1", major=19), Destination(None, 18, 9 * GIB), "version", "newest one here is 18"),
        (PLAIN, replace(HERE, missing_extensions=("postgis",)), "extensions", "does not have postgis"),
        (PLAIN, replace(HERE, refused_extensions=("dblink",)), "extensions", "cannot take over dblink"),
        (PLAIN, replace(HERE, locale_problem="this host does not have its locale de_DE"), "locale", "de_DE"),
        (PLAIN, replace(HERE, free_bytes=2 * GIB), "size", "1.0 GiB, which takes up to 2.5 GiB here"),
        (replace(PLAIN, locale=Locale("SQL_ASCII", "libc", "C", "C")), HERE, "encoding", "SQL_ASCII"),
        (replace(PLAIN, locale=Locale("LATIN1", "libc", "de_DE", "de_DE")), HERE, "encoding", "LATIN1"),
        (replace(PLAIN, locale=Locale("UTF8", "libc x", "C", "C")), HERE, "locale provider", "libc x"),
        (replace(PLAIN, unreadable=("public.t",)), HERE, "rights", "may not read public.t"),
        (replace(PLAIN, row_secured=("public.t",)), HERE, "row security", "hide rows of public.t"),
        (replace(PLAIN, for_superusers=(("base type", "public.b"),)), HERE, "objects", "base type public.b"),
        (replace(PLAIN, roles=(SourceRole("ramet"),)), HERE, "roles", "ramet is a name that services reserve"),
        (replace(PLAIN, bootstrap_role="ramet"), HERE, "roles", "ramet is a name that services reserve"),
        (replace(PLAIN, withheld_owners=(WITHHELD,)), HERE, "roles", f"{WITHHELD} is a name that services reserve"),
        (replace(PLAIN, withheld_in_policies=(WITHHELD,)), ON_15, "policies", f"policies name {WITHHELD}, which"),
    ],
    ids=[
        "newer", "missing extension", "superuser extension", "locale", "size", "SQL_ASCII", "LATIN1", "provider",
        "rights", "row security", "objects", "reserved role", "reserved owner",
        "withheld owner", "withheld in a policy",
    ],
)  # fmt: skip
def test_an_import_that_cannot_succeed_is_refused(
    facts: SourceFacts, destination: Destination, subject: str, words: str
) -> None:
    (found,) = refusals(judge(facts, destination, owners=True))
    assert found.subject == subject
    assert words in found.message
    assert found.remedy


def test_a_policy_may_name_any_role_of_a_later_version() -> None:
    assert refusals(judge(replace(PLAIN, withheld_in_policies=(WITHHELD,)), HERE, owners=True)) == []


def test_an_encoding_whose_locale_fits_all_becomes_utf8() -> None:
    facts = replace(PLAIN, locale=Locale("LATIN1", "libc", "C", "C"))
    assert said(facts)["encoding"] == (Effect.CHANGED, "LATIN1 becomes UTF8")


def test_without_owners_reserved_names_do_not_matter() -> None:
    facts = replace(PLAIN, roles=(SourceRole("ramet"), SourceRole("app")))
    assert refusals(judge(replace(facts, withheld_owners=(WITHHELD,)), HERE, owners=False)) == []
    message = "tsdbadmin will own all; app, ramet and all privileges are left out".replace("app, ramet", "ramet, app")
    assert said(facts, owners=False)["owners"] == (Effect.CHANGED, message)


def test_attributes_and_memberships_that_roles_lose_are_named() -> None:
    roles = (SourceRole("boss", is_superuser=True), SourceRole("spy", member_of=("pg_read_all_data", "pg_monitor")))
    messages = [one.message for one in judge(replace(PLAIN, roles=roles), HERE, owners=True) if one.subject == "roles"]
    assert messages == [
        "boss, spy are made without LOGIN and without passwords",
        "boss will not have SUPERUSER",
        "these memberships are left out: spy in pg_read_all_data",
    ]


def test_memberships_in_roles_that_are_not_made_are_named() -> None:
    roles = (
        SourceRole("app", member_of=("boss", "postgres", "team", "tsdbadmin")),
        SourceRole("boss"),
        SourceRole("postgres", is_superuser=True, member_of=("tsdbadmin",)),
        SourceRole("team"),
        SourceRole("tsdbadmin", member_of=("app", "pg_read_all_data")),
    )
    messages = [one.message for one in judge(replace(PLAIN, roles=roles), HERE, owners=True) if one.subject == "roles"]
    left_out = "app in postgres, app in tsdbadmin, tsdbadmin in pg_read_all_data"
    assert messages[-1] == f"these memberships are left out: {left_out}"


def test_what_is_left_out_is_named_up_to_a_number() -> None:
    publications = tuple(SourcePublication(n, f"p{n}", needs_superuser=True) for n in range(10))
    facts = replace(PLAIN, publications=publications, event_triggers=("e",), subscriptions=("s",))
    found = said(replace(facts, database_privileges=("{app=c/postgres}",)))
    assert "every role that may log in may connect" in found["privileges"][1]
    assert found["publications"] == (Effect.CHANGED, "p0, p1, p2, p3, p4, p5, p6, p7 and 2 more: left out")
    assert found["event triggers"] == (Effect.CHANGED, "e: left out")
    assert found["subscriptions"] == (Effect.CHANGED, "s: left out")
