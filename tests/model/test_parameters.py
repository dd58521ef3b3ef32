"""Which values of settings are accepted, before PostgreSQL sees them."""

import pytest

from ramet.errors import Invalid
from ramet.model.parameters import PARAMETERS, Value, changed, parameters_of, with_parameters


@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("work_mem", "64MB", "64MB"),
        ("work_mem", " 1.5 GB ", "1.5GB"),
        ("work_mem", 4096, "4096kB"),
        ("statement_timeout", "0", "0"),
        ("statement_timeout", 500, "500ms"),
        ("statement_timeout", "5min", "5min"),
        ("log_min_duration_statement", -1, "-1"),
        ("autovacuum_naptime", 30, "30s"),
        ("autovacuum_vacuum_cost_delay", 2.5, "2.5ms"),
        ("random_page_cost", 1.1, "1.1"),
        ("effective_cache_size", 1000, "1000"),
        ("effective_cache_size", "12GB", "12GB"),
        ("jit", False, "off"),
        ("jit", "TRUE", "on"),
        ("plan_cache_mode", "Force_Generic_Plan", "force_generic_plan"),
        ("max_connections", 200, "200"),
        ("max_connections", 200.0, "200"),
        ("statement_timeout", "0100", "100ms"),
        ("statement_timeout", "0100 s", "100s"),
        ("log_min_duration_statement", "-01", "-1"),
        ("lock_timeout", "-0", "0"),
        ("random_page_cost", "01.10", "1.1"),
    ],
)
def test_a_value_is_taken_as_postgresql_reads_it(name: str, value: Value, taken: str) -> None:
    assert changed({}, {name: value}) == {name: taken}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("work_mem", "1kB"),
        ("work_mem", "3TB"),
        ("work_mem", "64mb"),
        ("work_mem", "64MB' # "),
        ("work_mem", "1.5"),
        ("work_mem", "٤٠٩٦"),
        ("work_mem", True),
        pytest.param("work_mem", 10**5000, id="long"),
        ("work_mem", ""),
        ("statement_timeout", "1ms"),
        ("statement_timeout", "-1"),
        ("idle_session_timeout", "1s"),
        ("jit", "maybe"),
        ("random_page_cost", "NaN"),
        ("random_page_cost", 1e300),
        ("max_connections", 501),
        ("max_locks_per_transaction", 129),
        ("plan_cache_mode", "off\nfsync = off"),
    ],
)
def test_another_value_is_refused_with_the_range(name: str, value: Value) -> None:
    with pytest.raises(Invalid, match=f"{name} must be .*got"):
        changed({}, {name: value})


@pytest.mark.parametrize(
    "name", ["fsync", "archive_mode", "shared_preload_libraries", "WORK_MEM", "work_mem = 1 #", ""]
)
def test_a_setting_that_is_not_in_the_table_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="not among the settings"):
        changed({}, {name: "on"})


def test_settings_are_changed_and_reset_one_by_one() -> None:
    present = changed({}, {"work_mem": "64MB", "jit": False})
    assert changed(present, {"jit": None, "random_page_cost": 2}) == {"work_mem": "64MB", "random_page_cost": "2"}
    assert parameters_of(with_parameters({"wal_level": "logical"}, present)) == present
    assert with_parameters({"wal_level": "logical", "parameters": present}, {}) == {"wal_level": "logical"}


def test_every_setting_says_what_it_accepts() -> None:
    assert PARAMETERS["statement_timeout"].range_text == "0, or between 100ms and 24d"
    assert PARAMETERS["work_mem"].range_text == "between 64kB and 2047GB"
    assert PARAMETERS["random_page_cost"].range_text == "between 0 and 1000000"
    assert PARAMETERS["jit"].range_text == "on or off"
    assert all(one.range_text for one in PARAMETERS.values())
