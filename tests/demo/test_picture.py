"""The moving picture of a session: well-formed, one frame at a time, and all of what was printed."""

import xml.etree.ElementTree as ET

from demo.picture import Frame, picture

_SVG = "{http://www.w3.org/2000/svg}"


def test_each_frame_has_its_time_and_text_is_text() -> None:
    frames = [Frame(["$ ramet ls"], 1.0), Frame(["$ ramet ls", "a <b> & c", "x" * 300], 2.0)]
    made = ET.fromstring(picture(frames))  # noqa: S314 - our own
    groups = made.findall(f"{_SVG}g")
    assert [group.get("id") for group in groups] == ["f0", "f1"]
    lines = ["".join(text.itertext()) for text in groups[1]]
    assert lines[:2] == ["$ ramet ls", "a <b> & c"]
    assert len(lines[2]) == 112
    style = made.findtext(f"{_SVG}style") or ""
    assert "@keyframes k0 { 0.00% { visibility: visible; } 14.29%{ visibility: hidden; } }" in style
    assert "prefers-reduced-motion" in style


def test_a_long_session_shows_its_end() -> None:
    [group] = ET.fromstring(picture([Frame([str(n) for n in range(50)], 1.0)])).findall(f"{_SVG}g")  # noqa: S314
    assert group[-1].text == "49"
    assert len(group) == 22
