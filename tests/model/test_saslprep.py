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
        ("a\u200bb", "a b"),  # both a space and nothing by the RFC
        ("cafe\u0301", "caf\u00e9"),
        ("\u0627\u0031", "\u0627\u0031"),  # cannot be prepared, so it stays
        ("\u0007\u00e9", "\u0007\u00e9"),
        ("\U0001f511 key", "\U0001f511 key"),
        ("a\u1680b", "a b"),  # a space that normalization alone keeps
        ("\u00ad", "\u00ad"),  # nothing would be left
        ("\u0007\u00aa", "\u0007\u00aa"),  # a control character forbids the rest, too
        ("\u0627\u00ad\u0628", "\u0627\u0628"),  # right to left throughout
        ("1\u00ad\u0627", "1\u00ad\u0627"),  # does not begin right to left
        ("\u0627\u00ad1", "\u0627\u00ad1"),  # does not end right to left
        ("\u0627\u00aa\u0628", "\u0627\u00aa\u0628"),  # left to right in between
        ("pw\U0001f21a", "pw\U0001f21a"),  # not assigned in Unicode 3.2, although what it is normalized to is
        ("a\u2090", "a\u2090"),
        ("a\u0340", "a\u0340"),  # forbidden, although what it is normalized to is not
        ("\u2135b", "\u05d0b"),  # left to right before it is normalized
    ],
)
def test_a_password_is_prepared_where_it_can_be(password: str, expected: str) -> None:
    assert prepared(password) == expected
