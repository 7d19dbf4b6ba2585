"""The manifests: valid one by one, parts that fit together, and rights that are enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streameval.config import load
from streameval.daemon.assembly import checkpoint_store
from streameval.events.records import Partition
from streameval.monitoring.rules import rules_of
from streameval.sources.kafka.cluster import Cluster
from streameval.sources.settings import LATEST, KafkaOptions
from streameval.testing.broker import Broker, free_ports
from tests.cli import program
from tests.daemon.running import running
from tests.deploy.examples import (
    BASE,
    DEPLOY,
    KUBERNETES,
    changed,
    compose,
    document,
    documents,
    image_arguments,
    instruction,
    of_the_environment,
    of_the_system,
)
from tests.house.checkout import ROOT
from tests.kafka.topics import create, fill
from tests.processes import finished

KUSTOMIZATIONS = {path.parent: document(path) for path in KUBERNETES.rglob("kustomization.yaml")}
KUSTOMIZATION = KUSTOMIZATIONS[BASE]
MANIFESTS = [BASE / name for name in KUSTOMIZATION["resources"]]
OBJECTS = {manifest["kind"]: manifest for manifest in map(document, MANIFESTS)}
POD_MONITOR = document(KUBERNETES / "pod-monitor" / "podmonitor.yaml")
SERVICE_MONITOR = document(KUBERNETES / "service-monitor" / "servicemonitor.yaml")
MONITORS = [POD_MONITOR, SERVICE_MONITOR]
STRIMZI = KUBERNETES / "strimzi"
OBJECT_STORAGE = KUBERNETES / "object-storage"
READER = KUBERNETES / "reader"
SET = OBJECTS["StatefulSet"]["spec"]
POD = SET["template"]["spec"]
LABELS = {"app.kubernetes.io/name": "streameval"}
# What the endpoints of monitors may have, of the much that the operator knows.
ENDPOINT = {"port", "path", "interval", "scheme", "tlsConfig", "basicAuth"}


@pytest.mark.parametrize("release", ["1.30.0", "1.37.0"])
def test_every_manifest_is_what_kubernetes_allows(release: str) -> None:
    tool = of_the_environment("kubernetes-validate")
    done = finished([tool, "--strict", "--kubernetes-version", release, *MANIFESTS])
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count(" passed ") == len(MANIFESTS)


def test_the_kustomizations_leave_nothing_out_and_name_nothing_that_is_not_there() -> None:
    named = {folder / "kustomization.yaml" for folder in KUSTOMIZATIONS}
    for folder, said in KUSTOMIZATIONS.items():
        generated = [
            name for generator in said.get("configMapGenerator", ()) for name in generator["files"]
        ]
        patched = [patch["path"] for patch in said.get("patches", ())]
        others = [*said.get("resources", ()), *said.get("components", ())]
        named |= {(folder / name).resolve() for name in (*generated, *patched, *others)}
    folders = {path for path in named if path.is_dir()}
    assert {path for path in KUBERNETES.rglob("*") if path.is_file()} == named - folders
    # One of the monitors is enough.
    other = {KUBERNETES, STRIMZI, OBJECT_STORAGE, READER, KUBERNETES / "service-monitor"}
    assert folders == {*KUSTOMIZATIONS} - other


@pytest.mark.parametrize(
    "folder", [KUBERNETES, STRIMZI, OBJECT_STORAGE, READER], ids=lambda folder: folder.name
)
def test_kustomize_builds_them(folder: Path) -> None:
    kustomize = shutil.which("kustomize")
    command = [kustomize, "build"] if kustomize else [of_the_system("kubectl"), "kustomize"]
    done = finished([*command, folder])
    assert done.returncode == 0, done.stderr
    built = [*yaml.safe_load_all(done.stdout)]
    kinds = sorted(manifest["kind"] for manifest in built)
    expected = [*OBJECTS, "ConfigMap", "PodMonitor"]
    if folder == STRIMZI:
        expected += ["Kafka", "KafkaNodePool", "KafkaTopic", "KafkaTopic", "KafkaUser"]
        assert {manifest["metadata"]["namespace"] for manifest in built} == {"kafka"}
    if folder == OBJECT_STORAGE:
        expected.remove("PersistentVolumeClaim")
        expected.append("ServiceAccount")
        assert "persistentVolumeClaim" not in done.stdout
        assert 'path = "s3://' in done.stdout
    if folder == READER:
        expected += ["Deployment", "NetworkPolicy", "PodMonitor", "Service"]
        _check_reader({(each["kind"], each["metadata"]["name"]): each for each in built})
    assert kinds == sorted(expected)
    (pods,) = (
        manifest["spec"]["template"]["spec"]
        for manifest in built
        if manifest["kind"] == "StatefulSet"
    )
    (container,) = pods["containers"]
    for variable in container["env"]:
        assert len(set(variable) & {"value", "valueFrom"}) == 1, variable
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pods["volumes"]}
    volumes = [
        volume.get("configMap", {}).get("name")
        or volume.get("persistentVolumeClaim", {}).get("claimName")
        for volume in pods["volumes"]
    ]
    assert {*filter(None, volumes)} <= {manifest["metadata"]["name"] for manifest in built}
    accounts = {
        manifest["metadata"]["name"] for manifest in built if manifest["kind"] == "ServiceAccount"
    }
    assert {*filter(None, [pods.get("serviceAccountName")])} == accounts


def _check_reader(built: Mapping[tuple[str, str], dict[str, Any]]) -> None:
    """The reader is as the replicas in all but its name, its verb and what it may write."""
    name, labels = "streameval-serve", {"app.kubernetes.io/name": "streameval-serve"}
    for kind in ("Deployment", "NetworkPolicy", "PodMonitor", "Service"):
        assert built[kind, name]["metadata"]["labels"] == labels
    deployment = built["Deployment", name]["spec"]
    assert [
        deployment["template"]["metadata"]["labels"],
        deployment["selector"]["matchLabels"],
        built["Service", name]["spec"]["selector"],
        built["NetworkPolicy", name]["spec"]["podSelector"]["matchLabels"],
        built["PodMonitor", name]["spec"]["selector"]["matchLabels"],
    ] == [labels] * 5
    pods = deployment["template"]["spec"]
    replicas = built["StatefulSet", "streameval"]["spec"]["template"]["spec"]
    (reader,), (replica,) = pods["containers"], replicas["containers"]
    assert reader["args"] == ["serve", *replica["args"][1:]]
    alike = {"image", "env", "ports", "securityContext", *PROBES}
    assert {key: reader[key] for key in alike} == {key: replica[key] for key in alike}
    assert pods["securityContext"] == replicas["securityContext"]
    read_only = [{**mount, "readOnly": True} for mount in replica["volumeMounts"]]
    assert reader["volumeMounts"] == read_only
    (endpoint,) = built["PodMonitor", "streameval"]["spec"]["podMetricsEndpoints"]
    (rule,) = endpoint["metricRelabelings"]
    (job, _) = document(DEPLOY / "prometheus" / "replicas.yml")["scrape_configs"]
    (same,) = job["metric_relabel_configs"]
    assert [rule["regex"], rule["action"], rule["sourceLabels"]] == [
        *(same["regex"], same["action"], same["source_labels"])
    ]


def test_with_object_storage_nothing_but_the_state_is_elsewhere() -> None:
    here = (OBJECT_STORAGE / "streameval.toml").read_text(encoding="utf-8").splitlines()
    there = (BASE / "streameval.toml").read_text(encoding="utf-8").splitlines()
    more = [line for line in here if line not in there and not line.startswith("#")]
    assert more == ['path = "s3://example-checkpoints/streameval"', 'region = "eu-west-1"']
    assert [line for line in there if line not in here][1:] == [
        'path = "/var/lib/streameval/state"'
    ]
    state = load(OBJECT_STORAGE / "streameval.toml").state
    assert state is not None
    assert checkpoint_store(state).path == "s3://example-checkpoints/streameval"


def test_everything_means_the_same_pods() -> None:
    for manifest in [*OBJECTS.values(), *MONITORS]:
        assert manifest["metadata"]["labels"] == LABELS
    assert SET["template"]["metadata"]["labels"] == LABELS
    selectors = [
        SET["selector"]["matchLabels"],
        OBJECTS["Service"]["spec"]["selector"],
        OBJECTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        OBJECTS["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        *(monitor["spec"]["selector"]["matchLabels"] for monitor in MONITORS),
        *(
            constraint["labelSelector"]["matchLabels"]
            for constraint in POD["topologySpreadConstraints"]
        ),
    ]
    assert selectors == [LABELS] * len(selectors)
    assert SET["serviceName"] == OBJECTS["Service"]["metadata"]["name"]


def test_everything_means_the_same_port() -> None:
    (port,) = _container()["ports"]
    assert str(port["containerPort"]) == instruction("EXPOSE")
    (service,) = OBJECTS["Service"]["spec"]["ports"]
    (admitted,) = OBJECTS["NetworkPolicy"]["spec"]["ingress"]
    (of_pods,) = POD_MONITOR["spec"]["podMetricsEndpoints"]
    (of_the_service,) = SERVICE_MONITOR["spec"]["endpoints"]
    assert of_the_service["port"] == service["name"]
    named = [
        service["targetPort"],
        *(port_entry["port"] for port_entry in admitted["ports"]),
        *(_container()[name]["httpGet"]["port"] for name in PROBES),
        of_pods["port"],
    ]
    assert named == [port["name"]] * len(named)


PROBES = {"startupProbe": "/-/healthy", "livenessProbe": "/-/healthy", "readinessProbe": "/-/ready"}


def test_probes_ask_what_they_are_for() -> None:
    requested = {name: _container()[name]["httpGet"]["path"] for name in PROBES}
    assert requested == PROBES


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


def test_everywhere_there_is_as_much_time_and_memory() -> None:
    unit = (DEPLOY / "systemd" / "streameval.service").read_text(encoding="utf-8")
    service = compose()["services"]["streameval"]
    seconds = POD["terminationGracePeriodSeconds"]
    assert f"\nTimeoutStopSec={seconds}\n" in unit
    assert service["stop_grace_period"] == f"{seconds}s"
    resources = _container()["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert (resources["limits"], service["mem_limit"]) == ({"memory": "1Gi"}, "1g")
    assert "\nMemoryMax=1G\n" in unit


def test_each_pod_is_a_member_under_its_own_name() -> None:
    source = _source()
    variables = {variable["name"]: variable["valueFrom"] for variable in _container()["env"]}
    assert source.member == "${POD_NAME}"
    assert variables["POD_NAME"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_what_the_configuration_takes_from_the_environment_is_there() -> None:
    text = (BASE / "streameval.toml").read_text(encoding="utf-8")
    named = set(re.findall(r"\$\{(\w+)\}", text))
    assert named == {variable["name"] for variable in _container()["env"]}


def test_every_path_of_the_configuration_is_a_volume() -> None:
    mounts = {mount["mountPath"]: mount for mount in _container()["volumeMounts"]}
    state = load(BASE / "streameval.toml").state
    assert state is not None
    needed = [state.path, _source().kafka["ssl_cafile"], _container()["args"][1]]
    homes = [next(path_ for path_ in mounts if Path(path).is_relative_to(path_)) for path in needed]
    assert sorted(homes) == sorted(mounts)
    volumes = {volume["name"] for volume in POD["volumes"]}
    assert {mount["name"] for mount in mounts.values()} == volumes
    assert [mount.get("readOnly", False) for mount in map(mounts.get, homes) if mount] == [
        False,
        True,
        True,
    ]


def test_all_pods_may_write_the_one_folder() -> None:
    assert OBJECTS["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]


def test_the_network_lets_kafka_through() -> None:
    brokers = _source().kafka["bootstrap_servers"]
    match = re.fullmatch(r"[\w-]+\.(?P<namespace>[\w-]+)\.svc:(?P<port>\d+)", brokers)
    assert match is not None
    kafka = OBJECTS["NetworkPolicy"]["spec"]["egress"][-1]
    (selector,) = [peer["namespaceSelector"]["matchLabels"] for peer in kafka["to"]]
    assert selector == {"kubernetes.io/metadata.name": match["namespace"]}
    assert kafka["ports"] == [{"port": int(match["port"])}]


@pytest.mark.parametrize(
    ("monitor", "endpoints"),
    [(POD_MONITOR, "podMetricsEndpoints"), (SERVICE_MONITOR, "endpoints")],
    ids=["PodMonitor", "ServiceMonitor"],
)
def test_the_operator_is_asked_for_the_job_that_alerts_look_for(
    monitor: dict[str, Any], endpoints: str
) -> None:
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    assert set(monitor["spec"]) == {"jobLabel", "selector", endpoints}
    # Of the pod for the one, of the Service for the other.
    assert LABELS[monitor["spec"]["jobLabel"]] == "streameval"
    (endpoint,) = monitor["spec"][endpoints]
    assert set(endpoint) <= ENDPOINT
    assert endpoint["path"] == "/metrics"


def _strimzi(kind: str = "") -> list[dict[str, Any]]:
    """What is asked of Strimzi, of one kind or of all."""
    entries = [name for name in KUSTOMIZATIONS[STRIMZI]["resources"] if name.endswith(".yaml")]
    every = [manifest for name in entries for manifest in documents(STRIMZI / name)]
    assert {manifest["apiVersion"] for manifest in every} == {"kafka.strimzi.io/v1"}
    return [manifest for manifest in every if kind in {"", manifest["kind"]}]


def _name(of: dict[str, Any]) -> str:
    return str(of["metadata"]["name"])


def test_strimzi_makes_the_cluster_that_the_daemon_reads() -> None:
    (cluster,), source = _strimzi("Kafka"), _source()
    (listener,) = cluster["spec"]["kafka"]["listeners"]
    namespace = KUSTOMIZATIONS[STRIMZI]["namespace"]
    address = f"{_name(cluster)}-kafka-bootstrap.{namespace}.svc:{listener['port']}"
    assert source.kafka["bootstrap_servers"] == address
    assert (listener["tls"], source.kafka["security_protocol"]) == (True, "SASL_SSL")
    assert listener["authentication"]["type"] == source.kafka["sasl_mechanism"].lower()
    for manifest in _strimzi():
        if manifest != cluster:
            assert manifest["metadata"]["labels"] == {"strimzi.io/cluster": _name(cluster)}


def test_strimzi_makes_the_topics_and_lets_the_daemon_use_them() -> None:
    config = load(BASE / "streameval.toml")
    assert config.dead_letters is not None
    dead_letters, source = config.dead_letters.topic, _source()
    assert {_name(topic) for topic in _strimzi("KafkaTopic")} == {*source.topics, dead_letters}
    (user,) = _strimzi("KafkaUser")
    spec = user["spec"]
    assert spec["authentication"]["type"] == source.kafka["sasl_mechanism"].lower()
    allowed = {
        (rule["resource"]["type"], rule["resource"]["name"]): rule["operations"]
        for rule in spec["authorization"]["acls"]
    }
    assert allowed == {
        ("topic", "recommendation-events"): ["Describe", "Read"],
        ("group", source.group): ["Describe", "Read"],
        ("topic", dead_letters): ["Describe", "Read", "Write"],
    }


def test_the_pods_take_the_secrets_that_strimzi_makes() -> None:
    (patch,) = (
        document(STRIMZI / patch_entry["path"])
        for patch_entry in KUSTOMIZATIONS[STRIMZI]["patches"]
    )
    pod = patch["spec"]["template"]["spec"]
    (user,), (cluster,) = map(_name, _strimzi("KafkaUser")), map(_name, _strimzi("Kafka"))
    (container,) = pod["containers"]
    name, password = container["env"]
    assert (name["name"], name["value"]) == ("KAFKA_USERNAME", user)
    assert password["valueFrom"]["secretKeyRef"] == {"name": user, "key": "password"}
    (volume,) = pod["volumes"]
    assert volume["secret"]["secretName"] == f"{cluster}-cluster-ca-cert"
    assert volume["name"] in {volume_entry["name"] for volume_entry in POD["volumes"]}
    assert {variable["name"] for variable in container["env"]} <= {
        variable["name"] for variable in _container()["env"]
    }


def test_the_rules_become_an_object_of_the_operator() -> None:
    text = (ROOT / "docs" / "how-to" / "deployment.md").read_text(encoding="utf-8")
    match = re.search(r"^(\{\n.*?^\}) \| kubectl apply -f -$", text, re.MULTILINE | re.DOTALL)
    assert match is not None
    path = f"{of_the_environment('streameval').parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", match[1]],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    made = yaml.safe_load(done.stdout)
    assert made["kind"] == "PrometheusRule"
    assert made["spec"] == yaml.safe_load(rules_of(load(BASE / "streameval.toml")))


def _container() -> dict[str, Any]:
    (only,) = POD["containers"]
    assert isinstance(only, dict)
    return only


def _source() -> KafkaOptions:
    source = load(BASE / "streameval.toml").source
    assert isinstance(source, KafkaOptions)
    return source


TOPIC, LETTERS = "recommendation-events", "recommendation-events.dlq"
PASSWORD = "correct-horse"
KAFKA_USER = document(KUBERNETES / "strimzi" / "user.yaml")
USER = KAFKA_USER["metadata"]["name"]
EVENT = (
    b'{"event_id": "e", "ts": "2026-01-01T00:00:00Z", "variant": "control",'
    b' "recommendations": ["a"], "interactions": ["a"]}'
)


@pytest.mark.kafka
@pytest.mark.nightly
def test_the_daemon_reads_commits_and_writes_dead_letters_with_its_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _guarded() as (broker, address):
        create(broker, name=TOPIC)
        create(broker, name=LETTERS)
        fill(broker, TOPIC, {0: [EVENT, b"no event"]})
        environment = {"POD_NAME": "pod-0", "KAFKA_USERNAME": USER, "KAFKA_PASSWORD": PASSWORD}
        config = _configuration(address, tmp_path / "state")
        web = ("--listen", "127.0.0.1:0")
        with running(config, tmp_path, *web, **environment) as daemon:
            refused = daemon.until(lambda: daemon.logged("source_trouble"))
            assert "authoriz" in refused[0].lower()
            _allow(broker)
            daemon.consumed(2)
            daemon.until(lambda: daemon.get("/-/ready").status_code == 200)
            assert daemon.stop() == 0
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        output = program.run("dlq", tmp_path / "streameval.toml")
        assert (output.returncode, "1 record in topic" in output.stdout) == (0, True), output.stderr
        with closing(Cluster({"bootstrap_servers": broker.bootstrap_servers})) as cluster:
            (letters,) = cluster.offsets([Partition(LETTERS, 0)], LATEST).values()
            (committed,) = cluster.committed("streameval", [Partition(TOPIC, 0)]).values()
        assert (letters, committed) == (1, 2)


@contextmanager
def _guarded() -> Iterator[tuple[Broker, str]]:
    """A broker that lets only those do anything to whom it is allowed, and where they come in."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    properties = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": scram,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # The tests themselves, and the broker.
        "super.users": "User:ANONYMOUS",
    }
    with Broker(listeners={"SASL_PLAINTEXT": address}, properties=properties) as broker:
        credential = UserScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_512, PASSWORD)
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
            admin.alter_user_scram_credentials([credential])
        yield broker, address


def _allow(broker: Broker) -> None:
    """What Strimzi's operator does with the KafkaUser."""
    rights = [
        ACL(
            f"User:{USER}",
            "*",
            ACLOperation[operation.upper()],
            ACLPermissionType.ALLOW,
            ResourcePattern(
                ResourceType[rule["resource"]["type"].upper()], rule["resource"]["name"]
            ),
        )
        for rule in KAFKA_USER["spec"]["authorization"]["acls"]
        for operation in rule["operations"]
    ]
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.create_acls(rights)


def _configuration(address: str, state: Path) -> str:
    """That of the pods, with this broker, without TLS, and a folder of the test's own."""
    changes = {
        "events-kafka-bootstrap.kafka.svc:9093": address,
        '"SASL_SSL"': '"SASL_PLAINTEXT"',
        'ssl_cafile = "/etc/streameval-kafka/ca.crt"\n': "",
        "/var/lib/streameval/state": str(state),
        'allowed_hosts = ["*.streameval"]\n': "",
    }
    return changed(BASE / "streameval.toml", changes)
