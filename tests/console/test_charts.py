"""Charts of metrics: their lines and axes, the ranges to choose from, and the values at a time."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import BrowserContext, expect

from ramet.console.views.charts import METRICS, charts, round_values
from ramet.console.views.time_axis import time_axis
from ramet.console.views.time_scale import TimeScale
from ramet.control.plane import utc_now
from ramet.model.metrics import Sample, Series
from ramet.store import metrics, services
from tests.console.browsers import enter, watch
from tests.console.visitor import Visitor

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _at(minutes: float) -> datetime:
    return _NOON + timedelta(minutes=minutes)


def test_a_chart_sums_labels_and_has_gaps_where_values_are_missing() -> None:
    one = Series({}, [(_at(0), 1.0), (_at(1), None), (_at(2), 3.0)])
    two = Series({}, [(_at(0), 1.0), (_at(1), None), (_at(2), 1.0)])
    found = charts([(METRICS[0], [one, two]), (METRICS[1], [Series({}, [(_at(0), None)])])])
    assert found is not None
    (drawn,) = found.charts
    assert drawn.line == "M0 50 L0 50 M750 0 L1000 0"
    assert [(point.text, point.y) for point in drawn.points] == [("2.00 CPU", 50), ("no sample", None), ("4.00 CPU", 0)]
    assert [(tick.text, tick.y) for tick in drawn.ticks] == [("0", 100), ("2", 50), ("4", 0)]
    assert [at for at, _ in found.rows] == [_at(0), _at(1), _at(2)]
    assert drawn.points[drawn.last_place].text == "4.00 CPU"


@pytest.mark.parametrize(("missing", "is_current"), [(0, True), (2, True), (3, False), (50, False)])
def test_the_newest_value_is_of_now_unless_later_ones_are_missing(missing: int, *, is_current: bool) -> None:
    points = [(_at(n), 1.0 if n < 60 - missing else None) for n in range(60)]
    found = charts([(METRICS[0], [Series({}, points)])])
    assert found is not None
    (drawn,) = found.charts
    assert (drawn.last_place, drawn.is_current) == (59 - missing, is_current)


def test_there_are_no_charts_without_values() -> None:
    assert charts([(METRICS[0], [Series({}, [(_at(0), None)])]), (METRICS[1], [])]) is None


@pytest.mark.parametrize(
    ("highest", "marked"),
    [
        (0, [0, 1]),
        (1, [0, 0.5, 1]),
        (0.07, [0, 0.05, 0.1]),
        (3, [0, 1, 2, 3]),
        (3.01, [0, 2, 4]),
        (999, [0, 500, 1000]),
        (2.1e9, [0, 1e9, 2e9, 3e9]),
    ],
)
def test_values_are_marked_at_round_numbers(highest: float, marked: list[float]) -> None:
    assert round_values(highest) == marked


@pytest.mark.parametrize(
    ("length", "texts"),
    [
        (timedelta(seconds=20), ["12:00:05", "12:00:10", "12:00:15", "12:00:20"]),
        (timedelta(hours=1), ["12:15", "12:30", "12:45", "13:00"]),
        (timedelta(hours=6), ["14:00", "16:00", "18:00"]),
        (timedelta(days=1), ["18:00", "00:00", "06:00", "12:00"]),
        (timedelta(days=7), ["3 Jan", "5 Jan", "7 Jan"]),
        (timedelta(days=900), ["Apr 2026", "Oct 2026", "Apr 2027", "Oct 2027", "Apr 2028"]),
    ],
)
def test_an_axis_marks_up_to_five_round_times(length: timedelta, texts: list[str]) -> None:
    begin = _NOON + timedelta(seconds=2)
    assert [tick.text for tick in time_axis(TimeScale(begin, begin + length, 0, 100)).ticks] == texts


def _sampled(visitor: Visitor, minutes: int, until: int = 0) -> str:
    """Make a service that was measured each minute, with one connection more each time; return its address."""
    shop = visitor.ready()
    now = utc_now().replace(second=30, microsecond=0)
    times = [now - timedelta(minutes=n) for n in range(minutes, until, -1)]
    with visitor.world.runtime.store.write() as tx:
        services.update_service(tx, shop.id, created_at=times[0])
        for number, at in enumerate(times):
            metrics.insert_samples(tx, {shop.id: Sample(at, {"ramet_connections;state=idle": float(number)})})
    return f"/console/services/{shop.id}/metrics"


def test_a_range_is_chosen_and_each_value_stands_in_a_table(visitor: Visitor) -> None:
    visitor.sign_in()
    path = _sampled(visitor, 200)
    hour, longer = visitor.see(path), visitor.see(f"{path}?range=6h")
    assert 'range=hour" aria-current="true"' in hour
    assert 58 <= hour.count("<th scope=row>") <= 61
    assert ">199</tr>" in hour
    assert ">100</tr>" not in hour
    assert 'range=6h" aria-current="true"' in longer
    assert 40 <= longer.count("<th scope=row>") <= 41
    assert "range must be one of hour, 6h, day" in visitor.see(f"{path}?range=century", 400)


def test_the_value_at_a_time_is_shown_by_mouse_and_by_keyboard(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    path = _sampled(visitor, 30)
    page = enter(context, visitor.link)
    complaints = watch(page)
    page.goto(visitor.origin + path)
    chart = page.locator(".chart", has_text="Connections")
    reading, slider = chart.locator(".reading"), chart.get_by_role("slider")
    expect(reading).to_have_text("29 now")
    slider.hover(position={"x": 1, "y": 20})
    expect(reading).to_contain_text("0 at ")
    first = page.locator("table.values tbody tr").first.locator("time")
    assert first.text_content() == _in_kolkata(str(first.get_attribute("datetime")))
    page.get_by_role("heading", name="Metrics").first.hover()
    expect(reading).to_have_text("29 now")
    slider.focus()
    slider.press("Home")
    slider.press("ArrowRight")
    expect(reading).to_contain_text("1 at ")
    assert str(slider.get_attribute("aria-valuetext")).endswith(": 1")
    slider.blur()
    expect(reading).to_have_text("29 now")
    marks = [text.split(":") for text in chart.locator(".times text").all_text_contents()]
    assert marks
    assert all(int(minutes) % 5 == 0 for _, minutes in marks)
    assert complaints == []


def test_an_old_value_is_shown_with_its_time(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    path = _sampled(visitor, 30, until=20)
    page = enter(context, visitor.link)
    page.goto(visitor.origin + path)
    chart = page.locator(".chart", has_text="Connections")
    reading = chart.locator(".reading")
    of_last = page.locator("table.values tbody tr", has=page.locator("td[data-y]")).last.locator("time")
    shown = f"9 at {_in_kolkata(str(of_last.get_attribute('datetime')))}"
    expect(reading).to_have_text(shown)
    chart.get_by_role("slider").hover(position={"x": 1, "y": 20})
    expect(reading).to_contain_text("0 at ")
    page.get_by_role("heading", name="Metrics").first.hover()
    expect(reading).to_have_text(shown)


def test_new_samples_appear_unless_somebody_reads_a_value(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    path = _sampled(visitor, 10)
    page = enter(context, visitor.link)
    page.clock.install()
    page.goto(visitor.origin + path)
    chart = page.locator(".chart", has_text="Connections")
    expect(chart.locator(".reading")).to_have_text("9 now")
    shop = visitor.named("shop")
    with visitor.world.runtime.store.write() as tx:
        metrics.insert_samples(tx, {shop.id: Sample(utc_now(), {"ramet_connections;state=idle": 44.0})})
    chart.get_by_role("slider").focus()
    page.clock.run_for(31_000)
    expect(chart.locator(".reading")).to_contain_text(" at ")
    chart.get_by_role("slider").blur()
    page.clock.run_for(31_000)
    expect(chart.locator(".reading")).to_contain_text("now")
    expect(chart.locator(".reading")).not_to_have_text("9 now")


def _in_kolkata(utc: str) -> str:
    return (datetime.fromisoformat(utc) + timedelta(hours=5, minutes=30)).strftime("%Y-%m-%d %H:%M")
