"""Preparing a password as clients of PostgreSQL do before they use it (RFC 4013, and PostgreSQL's departures from it).

A verifier is made from the prepared password; one made from the unprepared text would lock out users of a
no-break space or a composed letter.
"""

import stringprep
import unicodedata

_PROHIBITED = (
    stringprep.in_table_a1,
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def prepared(password: str) -> str:
    """Return the prepared password, or the password itself where it cannot be prepared, as libpq does.

    Like libpq (saslprep.c), and unlike the RFC, it looks for what is refused in the text before its normalization.
    A zero-width space is in two tables, and is a space.
    """
    if password.isascii():
        return password
    spaced = "".join(" " if stringprep.in_table_c12(c) else c for c in password)
    mapped = "".join(c for c in spaced if not stringprep.in_table_b1(c))
    is_refused = not mapped or any(refuses(c) for c in mapped for refuses in _PROHIBITED)
    return password if is_refused or not _reads_one_way(mapped) else unicodedata.normalize("NFKC", mapped)


def _reads_one_way(text: str) -> bool:
    """Tell whether right-to-left letters keep to the rule of RFC 3454, section 6."""
    if not any(stringprep.in_table_d1(c) for c in text):
        return True
    ends_so = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return ends_so and not any(stringprep.in_table_d2(c) for c in text)
