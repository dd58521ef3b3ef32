"""Passwords are prepared as libpq prepares them."""

import pytest

from ramet.model.saslprep import prepared


@pytest.mark.parametrize(
    ("password", "expected"),
    [
        ("plain ASCII ~!'\"\\", "plain ASCII ~!'\"\\"),
        ("I\u00adX", "IX"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("cafe\u0301", "caf\u00e9"),
        ("\u0627\u0031", "\u0627\u0031"),  # cannot be prepared, so it stays
        ("\u0007\u00e9", "\u0007\u00e9"),
        ("\U0001f511 key", "\U0001f511 key"),
    ],
)
def test_a_password_is_prepared_where_it_can_be(password: str, expected: str) -> None:
    assert prepared(password) == expected
