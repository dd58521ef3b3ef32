"""What is applied to run Ramet in a cluster: its rights are those that it asks for, and its pods may do little."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ramet import __version__
from ramet.backends.kubernetes.doctor import OF_ARCHIVE, OF_NAMESPACES, RIGHTS
from ramet.settings import describe_settings

REPOSITORY = Path(__file__).parents[2]
MANIFESTS = REPOSITORY / "deploy/kubernetes/ramet.yaml"
CHART = REPOSITORY / "deploy/helm/ramet"
Manifest = dict[str, Any]


def manifests(kind: str) -> list[Manifest]:
    return [one for one in yaml.safe_load_all(MANIFESTS.read_text()) if one["kind"] == kind]


def pods() -> Iterator[Manifest]:
    for one in manifests("Deployment"):
        yield one["spec"]["template"]["spec"]


def granted(rules: list[Manifest]) -> set[tuple[str, str, str]]:
    """Return rules as (verb, group, resource)."""
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_ramet_has_the_rights_over_services_that_it_asks_for_and_no_more() -> None:
    (role,) = (one for one in manifests("Role") if one["metadata"]["name"] == "ramet-services")
    assert granted(role["rules"]) == set(RIGHTS)
    assert role["metadata"]["namespace"] == "ramet-services"


def test_with_namespaces_of_projects_it_may_make_them_as_well() -> None:
    text = (CHART / "templates/rights.yaml").read_text()
    rules = yaml.safe_load(
        text[text.index("{{- if $byProject }}\n  - ") :].partition("\n")[2].partition("  {{- end }}")[0]
    )
    assert granted(rules) == set(OF_NAMESPACES)


def test_with_an_archive_it_has_the_rights_that_it_asks_for_then() -> None:
    text = (CHART / "templates/_rights.tpl").read_text()
    rules = text.partition('{{- define "ramet.archiveRights" -}}')[2].partition("{{- end }}")[0]
    assert granted(yaml.safe_load(rules)) == set(OF_ARCHIVE)


def test_beside_that_it_only_lists_what_the_cluster_has() -> None:
    (of_cluster,) = manifests("ClusterRole")
    (addresses,) = (one for one in manifests("Role") if one["metadata"]["name"] == "ramet-api-addresses")
    assert {verb for verb, _, _ in granted([*of_cluster["rules"], *addresses["rules"]])} == {"list"}
    assert addresses["metadata"]["namespace"] == "default"


def test_pods_run_without_privileges_on_a_root_file_system_that_is_read_only() -> None:
    found = list(pods())
    assert len(found) == 2
    for pod in found:
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] > 0
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        writable = {one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")}
        assert writable == {"/var/lib/ramet", "/tmp"}


def test_pods_are_probed_where_ramet_answers() -> None:
    (settings,) = manifests("ConfigMap")
    ports = {"serve": "RAMET_PORT", "worker": "RAMET_PROBE_PORT"}
    for pod in pods():
        (container,) = pod["containers"]
        (command,) = container["args"]
        assert str(container["ports"][0]["containerPort"]) == settings["data"][ports[command]]
        paths = {name: container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")}
        assert paths == {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/livez"}


def test_every_setting_is_one_that_ramet_has() -> None:
    (settings,) = manifests("ConfigMap")
    known = {one.variable for one in describe_settings().values()}
    given = {name for name in settings["data"] if name.startswith("RAMET_")}
    for pod in pods():
        given |= {one["name"] for one in pod["containers"][0]["env"] if one["name"].startswith("RAMET_")}
    assert given - known == set()


def test_the_proxies_of_the_ingress_are_those_that_ramet_believes() -> None:
    """Without them its cookies are not Secure behind TLS, and the audit has the controller's address."""
    text = (CHART / "templates/settings.yaml").read_text()
    known = {one.variable for one in describe_settings().values()}
    written = set(re.findall(r"^  (RAMET_\w+):", text, re.MULTILINE))
    assert written - known == set()
    assert "RAMET_TRUSTED_PROXIES" in written
    assert 'RAMET_TRUSTED_PROXIES: {{ join "," . | quote }}' in text  # for a list and for a text
    assert "{{- if and .host (not .proxies) }}\n  {{- fail " in text
    assert yaml.safe_load((CHART / "values.yaml").read_text())["ingress"]["proxies"] == ""


def test_no_secret_is_in_the_manifests() -> None:
    assert manifests("Secret") == []


def test_the_image_runs_as_the_user_of_the_pods_and_has_the_locked_versions() -> None:
    text = (REPOSITORY / "Dockerfile").read_text()
    (user,) = re.findall(r"^USER (\d+):(\d+)$", text, re.MULTILINE)
    for pod in pods():
        assert user == (str(pod["securityContext"]["runAsUser"]), str(pod["securityContext"]["runAsGroup"]))
    assert "--constraint requirements.lock" in text
    allowed = [line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [word for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for word in line.split()]
    assert set(copied) <= set(allowed)
    assert all((REPOSITORY / one).exists() for one in copied)


def test_the_chart_and_its_manifests_have_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert yaml.safe_load((CHART / "values.yaml").read_text())["image"].endswith(f":{__version__}")
