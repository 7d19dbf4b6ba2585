"""The manifests: valid one by one, and parts that fit together."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from streameval.config import load
from streameval.sources.options import KafkaOptions
from tests.deploy.examples import (
    DEPLOY,
    KUBERNETES,
    compose,
    document,
    image_arguments,
    instruction,
    of_the_environment,
    ran,
)
from tests.house.checkout import ROOT

OPERATOR = KUBERNETES / "prometheus-operator"
KUSTOMIZATION = document(KUBERNETES / "kustomization.yaml")
COMPONENT = document(OPERATOR / "kustomization.yaml")
MANIFESTS = [KUBERNETES / name for name in KUSTOMIZATION["resources"]]
OBJECTS = {each["kind"]: each for each in map(document, MANIFESTS)}
MONITOR = document(OPERATOR / "podmonitor.yaml")
SET = OBJECTS["StatefulSet"]["spec"]
POD = SET["template"]["spec"]
LABELS = {"app.kubernetes.io/name": "streameval"}
# What PodMonitor's endpoints may have, of the much that the operator knows.
ENDPOINT = {"port", "path", "interval", "scheme", "tlsConfig", "basicAuth"}


@pytest.mark.parametrize("release", ["1.30.0", "1.37.0"])
def test_every_manifest_is_what_kubernetes_allows(release: str) -> None:
    status, said = _judged(release, *MANIFESTS)
    assert status == 0, said
    assert said.count(" passed ") == len(MANIFESTS)


def test_kubernetes_would_not_allow_anything_else(tmp_path: Path) -> None:
    text = (KUBERNETES / "statefulset.yaml").read_text(encoding="utf-8")
    wrong = tmp_path / "statefulset.yaml"
    wrong.write_text(text.replace("livenessProbe:", "livelinessProbe:"))
    status, said = _judged("1.37.0", wrong)
    assert status != 0
    assert "livelinessProbe" in said


def test_the_kustomization_leaves_nothing_out_and_names_nothing_that_is_not_there() -> None:
    generated = [name for each in KUSTOMIZATION["configMapGenerator"] for name in each["files"]]
    named = {*KUSTOMIZATION["resources"], *KUSTOMIZATION["components"], *generated}
    assert named | {"kustomization.yaml"} == {each.name for each in KUBERNETES.iterdir()}
    assert {*COMPONENT["resources"], "kustomization.yaml"} == {
        each.name for each in OPERATOR.iterdir()
    }


def test_its_kinds_are_known_to_kustomize() -> None:
    known = {"apiVersion", "kind", "resources", "components", "configMapGenerator", "images"}
    assert set(KUSTOMIZATION) <= known
    assert set(COMPONENT) <= known
    head = (KUSTOMIZATION["apiVersion"], KUSTOMIZATION["kind"])
    assert head == ("kustomize.config.k8s.io/v1beta1", "Kustomization")
    assert (COMPONENT["apiVersion"], COMPONENT["kind"]) == (
        "kustomize.config.k8s.io/v1alpha1",
        "Component",
    )


def test_everything_means_the_same_pods() -> None:
    for each in [*OBJECTS.values(), MONITOR]:
        assert each["metadata"]["labels"] == LABELS
    assert SET["template"]["metadata"]["labels"] == LABELS
    selectors = [
        SET["selector"]["matchLabels"],
        OBJECTS["Service"]["spec"]["selector"],
        OBJECTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        OBJECTS["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        MONITOR["spec"]["selector"]["matchLabels"],
        *(each["labelSelector"]["matchLabels"] for each in POD["topologySpreadConstraints"]),
    ]
    assert selectors == [LABELS] * len(selectors)
    assert SET["serviceName"] == OBJECTS["Service"]["metadata"]["name"]


def test_everything_means_the_same_port() -> None:
    (port,) = _container()["ports"]
    assert str(port["containerPort"]) == instruction("EXPOSE")
    (service,) = OBJECTS["Service"]["spec"]["ports"]
    (admitted,) = OBJECTS["NetworkPolicy"]["spec"]["ingress"]
    (endpoint,) = MONITOR["spec"]["podMetricsEndpoints"]
    named = [
        service["targetPort"],
        *(each["port"] for each in admitted["ports"]),
        *(_container()[name]["httpGet"]["port"] for name in PROBES),
        endpoint["port"],
    ]
    assert named == [port["name"]] * len(named)


PROBES = {
    "startupProbe": "/-/healthy",
    "livenessProbe": "/-/healthy",
    "readinessProbe": "/-/ready",
}


def test_probes_ask_what_they_are_for() -> None:
    asked = {name: _container()[name]["httpGet"]["path"] for name in PROBES}
    assert asked == PROBES


def test_the_pod_starts_what_the_image_starts() -> None:
    assert _container()["args"] == image_arguments()[1:]
    (image,) = KUSTOMIZATION["images"]
    assert _container()["image"] == image["name"]
    assert "command" not in _container()


def test_the_pod_may_do_nothing_but_its_work() -> None:
    pod, container = POD["securityContext"], _container()["securityContext"]
    user = f"{pod['runAsUser']}:{pod['runAsGroup']}"
    assert (pod["runAsNonRoot"], user) == (True, instruction("USER"))
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["readOnlyRootFilesystem"] is True
    assert container["allowPrivilegeEscalation"] is False
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert POD["automountServiceAccountToken"] is False


def test_everywhere_there_is_as_much_time_to_end() -> None:
    seconds = POD["terminationGracePeriodSeconds"]
    unit = (DEPLOY / "systemd" / "streameval.service").read_text(encoding="utf-8")
    assert f"\nTimeoutStopSec={seconds}\n" in unit
    assert compose()["services"]["streameval"]["stop_grace_period"] == f"{seconds}s"


def test_each_pod_is_a_member_under_its_own_name() -> None:
    source = _source()
    variables = {each["name"]: each["valueFrom"] for each in _container()["env"]}
    assert source.member == "${POD_NAME}"
    assert variables["POD_NAME"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_whatever_the_configuration_takes_from_the_environment_is_there() -> None:
    text = (KUBERNETES / "streameval.toml").read_text(encoding="utf-8")
    named = set(re.findall(r"\$\{(\w+)\}", text))
    assert named == {each["name"] for each in _container()["env"]}
    secrets = [each["valueFrom"].get("secretKeyRef") for each in _container()["env"]]
    assert {each["name"] for each in secrets if each} == {"streameval-kafka"}


def test_every_path_of_the_configuration_is_a_volume() -> None:
    mounts = {each["mountPath"]: each for each in _container()["volumeMounts"]}
    state = load(KUBERNETES / "streameval.toml").state
    assert state is not None
    needed = [state.path, _source().kafka["ssl_cafile"], _container()["args"][1]]
    homes = [next(each for each in mounts if Path(path).is_relative_to(each)) for path in needed]
    assert sorted(homes) == sorted(mounts)
    volumes = {each["name"] for each in POD["volumes"]}
    assert {each["name"] for each in mounts.values()} == volumes
    assert [each.get("readOnly", False) for each in map(mounts.get, homes) if each] == [
        False,
        True,
        True,
    ]


def test_volumes_are_of_what_is_there() -> None:
    volumes = {each["name"]: each for each in POD["volumes"]}
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    assert volumes["configuration"]["configMap"]["name"] == generated["name"]
    claim = OBJECTS["PersistentVolumeClaim"]
    assert volumes["state"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    # All pods write the one folder.
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_the_network_lets_kafka_through() -> None:
    brokers = _source().kafka["bootstrap_servers"]
    found = re.fullmatch(r"[\w-]+\.(?P<namespace>[\w-]+)\.svc:(?P<port>\d+)", brokers)
    assert found is not None
    kafka = OBJECTS["NetworkPolicy"]["spec"]["egress"][-1]
    (selector,) = [each["namespaceSelector"]["matchLabels"] for each in kafka["to"]]
    assert selector == {"kubernetes.io/metadata.name": found["namespace"]}
    assert kafka["ports"] == [{"port": int(found["port"])}]


def test_the_operator_is_asked_for_the_job_that_alerts_look_for() -> None:
    assert (MONITOR["apiVersion"], MONITOR["kind"]) == ("monitoring.coreos.com/v1", "PodMonitor")
    assert set(MONITOR["spec"]) == {"jobLabel", "selector", "podMetricsEndpoints"}
    assert LABELS[MONITOR["spec"]["jobLabel"]] == "streameval"
    (endpoint,) = MONITOR["spec"]["podMetricsEndpoints"]
    assert set(endpoint) <= ENDPOINT
    assert endpoint["path"] == "/metrics"


def test_the_rules_become_an_object_of_the_operator() -> None:
    text = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    found = re.search(r"^(\{\n.*?^\}) \| kubectl apply -f -$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    done = subprocess.run(
        ["/bin/sh", "-c", found[1]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    made = yaml.safe_load(done.stdout)
    assert made["kind"] == "PrometheusRule"
    assert made["spec"] == document(DEPLOY / "prometheus" / "pipeline.yml")


def _judged(release: str, *paths: Path) -> tuple[int, str]:
    tool = of_the_environment("kubernetes-validate")
    done = ran(tool, "--strict", "--kubernetes-version", release, *paths)
    return done.returncode, done.stdout + done.stderr


def _container() -> dict[str, Any]:
    (found,) = POD["containers"]
    assert isinstance(found, dict)
    return found


def _source() -> KafkaOptions:
    source = load(KUBERNETES / "streameval.toml").source
    assert isinstance(source, KafkaOptions)
    return source
