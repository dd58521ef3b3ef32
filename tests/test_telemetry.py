"""The log."""

import logging

from ramet.telemetry import LineFormatter


def test_a_log_record_is_always_one_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        record = logging.LogRecord("ramet.x", logging.ERROR, "x.py", 1, "a\nb %s", ("c",), (type(error), error, None))
    line = LineFormatter().format(record)
    assert "\n" not in line
    assert 'level=error from=ramet.x message="a\\nb c"' in line
    assert "ValueError" in line
