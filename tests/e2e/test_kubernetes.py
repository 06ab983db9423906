"""The manifests of deploy/kubernetes: valid by the schemas of Kubernetes, and in agreement with the
server and the image."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pydantic
import pytest
import yaml
from cloudcoil.models.prometheus_operator.v1 import ServiceMonitor
from conftest import ROOT

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import kubernetes_validate

FOLDER = ROOT / "deploy" / "kubernetes"
OBJECTS = [each for path in sorted(FOLDER.glob("*.yaml")) for each in yaml.safe_load_all(path.read_text())]
VERSIONS = ["1.29", "1.37"]  # the oldest with ReadWriteOncePod, and the newest that is known


def of_kind(kind: str) -> list[dict]:
    return [each for each in OBJECTS if each["kind"] == kind]


def pods() -> list[dict]:
    """Returns the specifications of all pods."""
    jobs = [job["spec"]["jobTemplate"]["spec"]["template"]["spec"] for job in of_kind("CronJob")]
    return [one["spec"]["template"]["spec"] for one in of_kind("StatefulSet")] + jobs


def server() -> dict:
    (stateful_set,) = of_kind("StatefulSet")
    (container,) = stateful_set["spec"]["template"]["spec"]["containers"]
    return container


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_accept_every_object(version: str) -> None:
    for each in OBJECTS:
        if each["kind"] == "ServiceMonitor":  # a custom resource
            ServiceMonitor.model_validate(each, extra="forbid")
        else:
            kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_refuse_an_unknown_field(version: str) -> None:
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**of_kind("PodDisruptionBudget")[0], "specs": {}}, version, strict=True)


@pytest.mark.parametrize("endpoint", [{"port": 9090}, {"port": "ops", "intervals": "15s"}, {"port": "ops", "interval": "15 s"}])
def test_the_schema_of_a_service_monitor_refuses_a_wrong_endpoint(endpoint: dict) -> None:
    (monitor,) = of_kind("ServiceMonitor")
    with pytest.raises(pydantic.ValidationError):
        ServiceMonitor.model_validate({**monitor, "spec": {**monitor["spec"], "endpoints": [endpoint]}}, extra="forbid")


def test_every_setting_is_one_that_the_server_has() -> None:
    declared = re.findall(r'Setting \w+\{\s*\*this,\s*"(\w+)"', (ROOT / "server/config/settings.h").read_text())
    (config,) = of_kind("ConfigMap")
    assert set(config["data"]) <= {"NEARFIELD_" + name.upper() for name in declared}


def test_the_probes_are_paths_of_the_operations_port() -> None:
    container = server()
    paths = {name: container[name + "Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {name: get["path"] for name, get in paths.items()} == {"startup": "/livez", "readiness": "/readyz", "liveness": "/livez"}
    source = (ROOT / "server/ops_http/operations_port.cc").read_text()
    for get in paths.values():
        assert f'Path[] = "{get["path"]}"' in source
        assert get["port"] == "ops"


def test_ports_are_those_of_the_settings() -> None:
    (config,) = of_kind("ConfigMap")
    ports = {each["name"]: each["containerPort"] for each in server()["ports"]}
    assert config["data"]["NEARFIELD_LISTEN"] == f"0.0.0.0:{ports['grpc']}"
    assert config["data"]["NEARFIELD_OPS_LISTEN"] == f"0.0.0.0:{ports['ops']}"
    for service in of_kind("Service"):
        for each in service["spec"]["ports"]:
            assert each["port"] == ports[each["targetPort"]]
    (monitor,) = of_kind("ServiceMonitor")
    named = {port["name"] for service in of_kind("Service") for port in service["spec"]["ports"]
             if service["metadata"]["labels"] == monitor["spec"]["selector"]["matchLabels"]}
    assert {each["port"] for each in monitor["spec"]["endpoints"]} <= named
    (policy,) = of_kind("NetworkPolicy")
    assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == set(ports.values())


def test_every_file_of_the_identity_is_in_a_secret() -> None:
    (config,) = of_kind("ConfigMap")
    assert "NEARFIELD_ALLOW_INSECURE" not in config["data"]
    named = {"nearfield": [config["data"][f"NEARFIELD_{name}"] for name in ("TLS_CERT", "TLS_KEY", "KEY_FILE")],
             "snapshot": []}
    for pod in pods():
        (container,) = pod["containers"]
        named[container["name"]] += [one["value"] for one in container.get("env", [])]
        secrets = {volume["name"] for volume in pod["volumes"] if "secret" in volume}
        (mount,) = [one for one in container["volumeMounts"] if one["name"] in secrets]
        assert mount["readOnly"] is True
        assert {str(Path(path).parent) for path in named[container["name"]]} == {mount["mountPath"]}
    (job,) = of_kind("CronJob")
    (snapshot,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert {one["name"] for one in snapshot["env"]} == {"NEARFIELD_CA", "NEARFIELD_TOKEN_FILE"}


def test_the_kill_comes_after_the_exit() -> None:
    (config,) = of_kind("ConfigMap")
    (stateful_set,) = of_kind("StatefulSet")
    grace_s = stateful_set["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_s * 1000 > int(config["data"]["NEARFIELD_DRAIN_MS"]) + 4000


def test_every_container_is_confined() -> None:
    compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]["nearfield"]
    for pod in pods():
        user = pod["securityContext"]
        assert user["runAsNonRoot"] and f"{user['runAsUser']}:{user['runAsGroup']}" == compose["user"]
        assert user["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["image"] == compose["image"]
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
            assert "memory" in container["resources"]["limits"]


def test_the_selectors_find_the_server_only() -> None:
    (stateful_set,) = of_kind("StatefulSet")
    (job,) = of_kind("CronJob")
    labels = stateful_set["spec"]["template"]["metadata"]["labels"]
    selectors = [stateful_set["spec"]["selector"]["matchLabels"], of_kind("NetworkPolicy")[0]["spec"]["podSelector"]["matchLabels"],
                 of_kind("PodDisruptionBudget")[0]["spec"]["selector"]["matchLabels"], *(each["spec"]["selector"] for each in of_kind("Service"))]
    other = job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert not selector.items() <= other.items()
    # The job may call the server.
    (client,) = of_kind("NetworkPolicy")[0]["spec"]["ingress"][0]["from"]
    assert client["podSelector"]["matchLabels"].items() <= other.items()
