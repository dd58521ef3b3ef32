"""Pictures and tables of a bench's run."""

from xml.etree import ElementTree

from bench.pictures import Run, sizes, table, timeline
from bench.report import Row

_SVG = "{http://www.w3.org/2000/svg}"
RUN = Run(
    "fork-idle",
    [
        Row("now", 100, 100.0, 90.0, 110.0, 5),
        Row("now:accepted", 100, 10.0, 9.0, 11.0, 5),
        Row("now:capture", 100, 40.0, 39.0, 41.0, 5),
        Row("floor", 100, 25.0, 24.0, 26.0, 5),
        Row("now", 1000, 110.0, 90.0, 120.0, 5),
        Row("floor", 1000, 25.0, 24.0, 26.0, 5),
        Row("pg_basebackup", 1000, 3000.0, 2000.0, 4000.0, 3),
    ],
)


def test_the_parts_of_a_fork_fill_its_time_to_scale() -> None:
    boxes = [box for box in _read(timeline(RUN, 100)).iter(f"{_SVG}rect") if len(box)]
    widths = {box[0].text: float(box.get("width", 0)) for box in boxes}
    assert set(widths) == {"rest: 25.0 ms", "accepted: 10.0 ms", "capture: 40.0 ms", "rest: 50.0 ms"}
    assert abs(widths["capture: 40.0 ms"] - 4 * widths["accepted: 10.0 ms"]) < 0.5


def test_what_takes_longer_stands_higher_at_its_size() -> None:
    picture = _read(sizes(RUN))
    lines = [line.get("points", "").split() for line in picture.iter(f"{_SVG}polyline")]
    heights = [[float(point.split(",")[1]) for point in line] for line in lines]
    now, floor, basebackup = heights
    assert len(now) == len(floor) == 2
    assert basebackup[-1] < now[-1] < now[0] < floor[0]


def test_the_table_has_a_column_for_each_size_and_no_parts() -> None:
    assert table(RUN).splitlines() == [
        "| ms | 100 MB | 1,000 MB |",
        "|---|---|---|",
        "| now | 100 | 110 |",
        "| floor | 25 | 25 |",
        "| pg_basebackup |  | 3,000 |",
    ]


def _read(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)  # noqa: S314 - drawn here
