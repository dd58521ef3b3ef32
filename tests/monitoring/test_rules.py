"""The alert rules and the dashboard in deploy/monitoring: their expressions are PromQL over metrics that exist."""

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ramet.model.metrics import SERIES
from tests.monitoring.conftest import Monitored

_FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
_RULES = _FOLDER / "ramet-rules.yml"
_NOT_OURS = {"up"}


@cache
def _rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(_RULES.read_text())["groups"] for rule in group["rules"]]


@cache
def _panels() -> list[dict[str, Any]]:
    return [
        panel for panel in json.loads((_FOLDER / "ramet-dashboard.json").read_text())["panels"] if "targets" in panel
    ]


def _expressions() -> list[str]:
    of_panels = [target["expr"] for panel in _panels() for target in panel["targets"]]
    return [*(rule["expr"] for rule in _rules()), *(_with_values(each) for each in of_panels)]


def _with_values(expression: str) -> str:
    return expression.replace("$__rate_interval", "5m").replace("$service", ".*")


def _nodes_in(node: Any) -> Iterator[Any]:
    """Yield a parsed expression and all that it consists of."""
    yield node
    if isinstance(node, promql_parser.BinaryExpr):
        parts = [node.lhs, node.rhs]
    elif isinstance(node, promql_parser.Call):
        parts = list(node.args)
    else:
        parts = [node.expr] if hasattr(node, "expr") else []
    for part in parts:
        yield from _nodes_in(part)


def _names_in(expression: Any) -> Iterator[str]:
    """Yield the metrics that a parsed expression selects."""
    for node in _nodes_in(expression):
        if isinstance(node, promql_parser.VectorSelector):
            yield str(node.name)
        elif isinstance(node, promql_parser.MatrixSelector):
            yield str(node.vector_selector.name)


def _kept_by(aggregate: Any) -> list[str]:
    return [] if aggregate.modifier is None else list(aggregate.modifier.labels)


def _sums_in(expression: Any) -> Iterator[Any]:
    """Yield what is summed over all processes in a parsed expression."""
    for node in _nodes_in(expression):
        if str(getattr(node, "op", "")) == "sum" and hasattr(node, "expr") and "instance" not in _kept_by(node):
            yield node.expr


def test_every_metric_that_is_named_is_in_a_scrape(monitored: Monitored) -> None:
    families = list(text_string_to_metric_families(monitored.everything()))
    there = {sample.name for family in families for sample in family.samples}
    recorded = {rule["record"] for rule in _rules() if "record" in rule}
    named = {name for each in _expressions() for name in _names_in(promql_parser.parse(each))}
    assert len(named) > 30
    assert not sorted(named - there - recorded - _NOT_OURS)


@pytest.mark.parametrize("expression", _expressions())
def test_a_sum_over_a_service_counts_it_once_whatever_number_of_processes_report_it(expression: str) -> None:
    for inner in _sums_in(promql_parser.parse(expression)):
        reported = any(name in SERIES or name.startswith("ramet_service_") for name in _names_in(inner))
        assert not reported or (str(getattr(inner, "op", "")) == "max" and "instance" not in _kept_by(inner))


def test_an_unknown_metric_would_be_found() -> None:
    expression = promql_parser.parse('sum by (a) (rate(ramet_misspelt_total{b="c"}[5m])) / on (a) x > 1')
    assert set(_names_in(expression)) == {"ramet_misspelt_total", "x"}


@pytest.mark.parametrize("rule", [each for each in _rules() if "alert" in each], ids=lambda rule: str(rule["alert"]))
def test_every_alert_says_what_is_wrong_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"summary", "description"}
    used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
    kept = set(re.findall(r"(?:by|group_left) \(([^)]*)\)", rule["expr"]))
    known = {label.strip() for each in kept for label in each.split(",")} | {"instance"}
    assert used - {"name", "service_id"} <= known
    assert "name" not in used or "ramet:service_name" in rule["expr"]


def test_every_command_that_an_alert_names_exists() -> None:
    commands = (_FOLDER.parents[1] / "docs" / "cli.md").read_text()
    described = " ".join(rule["annotations"]["description"] for rule in _rules() if "alert" in rule)
    named = set(re.findall(r"ramet (?:service |db )[a-z-]+(?: list)?", described))
    assert named
    assert not [each for each in named if f"## {each}\n" not in commands]


def test_panels_do_not_overlap_and_have_units() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in _panels()]
    assert len(set(places)) == len(places)
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in _panels())


@pytest.mark.promtool
def test_promtool_accepts_the_rules() -> None:
    checked = subprocess.run(["promtool", "check", "rules", str(_RULES)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.promtool
def test_alerts_are_raised_for_what_they_are_about() -> None:
    cases = Path(__file__).with_name("alerts.test.yml")
    tested = subprocess.run(["promtool", "test", "rules", str(cases)], capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stderr
