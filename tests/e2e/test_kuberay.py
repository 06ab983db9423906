"""The manifest and the image of deploy/ray: valid by the schemas of Kubernetes, and in agreement with the command of the
cluster. The schema of a RayCluster is not here; its pods are checked as pods."""

from __future__ import annotations

import re
import shlex
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import kubernetes_validate

pytest.importorskip("ray")

from nearfield.ray.__main__ import parse  # noqa: E402
from nearfield.ray._server import port_range  # noqa: E402

FOLDER = ROOT / "deploy" / "ray"
OBJECTS = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all((FOLDER / "kuberay.yaml").read_text("utf-8"))}
RAY = OBJECTS["RayCluster", "nearfield"]["spec"]
HEAD, (WORKERS,) = RAY["headGroupSpec"], RAY["workerGroupSpecs"]
START = OBJECTS["CronJob", "nearfield-start"]["spec"]["jobTemplate"]["spec"]["template"]
REDIS = OBJECTS["StatefulSet", "nearfield-redis"]["spec"]["template"]
RAY_PODS = {"ray.io/cluster": "nearfield"}  # KubeRay sets these labels, and ray.io/group and ray.io/node-type
WORKER_PODS = {**RAY_PODS, "ray.io/group": WORKERS["groupName"], "ray.io/node-type": "worker"}


def container(template: dict) -> dict:
    (found,) = template["spec"]["containers"]
    return found


def script() -> str:
    shell, flag, text = container(START)["command"]
    assert (shell, flag) == ("sh", "-c")
    return text


def start() -> Any:
    """Returns the arguments of the command that starts the cluster."""
    words = shlex.split(script().replace("\\\n", ""), comments=True)
    return parse(words[words.index("nearfield.ray") + 1 :])


def pin(text: str, package: str) -> str:
    (found,) = re.findall(rf"(?m)^\s*\'?{re.escape(package)}(?:\[\w+(?:,\w+)*\])?==([\w.]+)", text)
    return found


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_the_schemas_accept_every_object(version: str) -> None:
    for (kind, name), each in OBJECTS.items():
        if kind != "RayCluster":
            kubernetes_validate.validate(each, version, strict=True)
    for group in (HEAD, WORKERS):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": group["template"]["spec"]}
        kubernetes_validate.validate(pod, version, strict=True)


def test_the_start_fits_the_cluster() -> None:
    chosen = start()
    workers = WORKERS["replicas"]
    assert chosen.command == "start" and chosen.nodes == workers + 1
    assert chosen.shards * chosen.replicas * chosen.num_gpus == workers == WORKERS["minReplicas"]
    assert WORKERS["maxReplicas"] >= 2 * workers
    assert HEAD["rayStartParams"]["num-cpus"] == "0"  # no server is on the head


@pytest.mark.parametrize("status, submits", [
    ("Status for job 'nearfield-start': PENDING", False),
    ("Status for job 'nearfield-start': RUNNING", False),
    ("Job 'nearfield-start' succeeded", False),
    ("Job 'nearfield-start' was stopped", False),
    ("Job 'nearfield-start' failed", True),
    ("", True),
])  # fmt: skip
def test_there_is_one_start(tmp_path: Path, status: str, submits: bool) -> None:
    """A retry of `ray job submit` made a second one, and the end of either ended the cluster."""
    ray, calls = tmp_path / "ray", tmp_path / "calls"
    ray.write_text(f'#!/bin/sh\necho "$*" >>{calls}\n[ "$2" = submit ] || echo "{status}"\n[ "$2" = submit ]\n')
    ray.chmod(0o755)
    done = subprocess.run(["sh", "-c", script()], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False)
    commands = calls.read_text().splitlines()
    assert done.returncode == 0 and commands[0] == "job status nearfield-start"
    if submits:
        assert commands[1] == "job delete nearfield-start"
        assert commands[2].startswith("job submit --submission-id nearfield-start --no-wait -- python -m nearfield.ray ")
    assert len(commands) == (3 if submits else 1)
    assert OBJECTS["CronJob", "nearfield-start"]["spec"]["concurrencyPolicy"] == "Forbid"


def test_workers_are_on_hosts_of_their_own_and_are_not_evicted() -> None:
    (spread,) = WORKERS["template"]["spec"]["topologySpreadConstraints"]
    selector = spread.pop("labelSelector")["matchLabels"]
    assert spread == {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    budget = OBJECTS["PodDisruptionBudget", "nearfield-ray"]["spec"]
    assert budget["minAvailable"] == WORKERS["replicas"]
    for labels in (selector, budget["selector"]["matchLabels"]):
        assert RAY_PODS.items() < labels.items() <= WORKER_PODS.items()  # not the head


def test_clients_reach_the_range_of_ports_and_no_port_of_ray() -> None:
    """They reached all ports: a caller that reaches those of Ray runs code."""
    policy = OBJECTS["NetworkPolicy", "nearfield-ray"]["spec"]
    assert policy["podSelector"] == {"matchLabels": RAY_PODS} and policy["policyTypes"] == ["Ingress"]
    reached = {}
    for rule in policy["ingress"]:
        (peer,) = rule["from"]
        reached[tuple(peer["podSelector"]["matchLabels"].items())] = rule.get("ports")
    ports = port_range(start().ports)
    assert reached == {
        tuple(RAY_PODS.items()): None,  # all
        (("nearfield-client", "true"),): [{"protocol": "TCP", "port": ports[0], "endPort": ports[-1]}],
        tuple(START["metadata"]["labels"].items()): [{"protocol": "TCP", "port": 8265}],
    }
    of_ray = {6379, 8265, 10001, 52365, 8080, *range(10002, 20000)}  # those of its workers last
    assert not of_ray & set(ports) and len(ports) > 2 * start().shards * start().replicas


def test_ray_asks_for_a_token() -> None:
    assert RAY["authOptions"] == {"mode": "token"}
    given = {each["name"]: each.get("value") or each["valueFrom"]["secretKeyRef"] for each in container(START)["env"]}
    assert given["RAY_AUTH_MODE"] == "token" and given["RAY_ADDRESS"] == "http://nearfield-head-svc:8265"
    assert given["RAY_AUTH_TOKEN"] == {"name": "nearfield", "key": "auth_token"}  # which KubeRay makes


def test_the_state_of_the_head_is_in_redis() -> None:
    options = RAY["gcsFaultToleranceOptions"]
    service = OBJECTS["Service", "nearfield-redis"]
    (port,) = service["spec"]["ports"]
    assert options["redisAddress"] == f"{service['metadata']['name']}:{port['port']}"
    labels = REDIS["metadata"]["labels"]
    policy = OBJECTS["NetworkPolicy", "nearfield-redis"]["spec"]
    assert service["spec"]["selector"] == labels == policy["podSelector"]["matchLabels"]
    redis = container(REDIS)
    (password,) = redis["env"]
    assert options["redisPassword"]["valueFrom"] == password["valueFrom"] and f'--requirepass "${password["name"]}"' in redis["command"][-1]
    (mount,) = redis["volumeMounts"]
    (volume,) = OBJECTS["StatefulSet", "nearfield-redis"]["spec"]["volumeClaimTemplates"]
    assert mount["name"] == volume["metadata"]["name"] and f"--dir {mount['mountPath']} --appendonly yes" in redis["command"][-1]
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": RAY_PODS, "matchExpressions": [
        {"key": "ray.io/node-type", "operator": "In", "values": ["head", "redis-cleanup"]}]}}]  # fmt: skip
    assert rule["ports"] == [{"protocol": "TCP", "port": port["port"]}]


def test_the_image_is_pinned() -> None:
    """As the main image, and with the versions that the tests use."""
    image, main = (path.read_text("utf-8") for path in (FOLDER / "Dockerfile", ROOT / "Dockerfile"))
    tested = (ROOT / "tests/environment/requirements.txt").read_text("utf-8")
    base = re.findall(r"(?m)^ARG RUNTIME_IMAGE=(\S+@sha256:[0-9a-f]{64})$", image)
    assert base and base == re.findall(r"(?m)^ARG RUNTIME_IMAGE=(\S+)$", main)
    for package in ("grpcio", "numpy", "pandas", "protobuf", "pyarrow", "ray", "xxhash"):
        assert pin(image, package) == pin(tested, package), package
    assert pin(image, "obstore") and pin(image, "ray") == RAY["rayVersion"]
    for template in (HEAD["template"], WORKERS["template"], START, REDIS):
        assert container(template)["image"] == "nearfield-ray:0.1.0"
        assert template["spec"]["automountServiceAccountToken"] is False
    for program in ("python3-venv", "redis-server", "wget"):  # KubeRay asks for the health with wget
        assert re.search(rf"(?m)^.*apt-get.*install.*\n?.*\b{program}\b", image), program
    assert "USER 65532:65532" in image and REDIS["spec"]["securityContext"]["fsGroup"] == 65532
