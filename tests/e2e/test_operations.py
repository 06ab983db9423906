"""The operations port of a real server, scraped by a real Prometheus: every query of the dashboard
answers, every metric that an alert names is exported, and faults make alerts fire."""

from __future__ import annotations

import itertools
import json
import os
import re
import select
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from conftest import DEADLINE_S, ROOT, free_port, start_server
from server import FolderWatch

DEPLOY = ROOT / "deploy"
NAME = re.compile(r"\b((?:nearfield|process)_[a-z0-9_]+)\b")
# Units of Grafana: counts, seconds, bytes, shares, rates, watts, degrees.
UNITS = {"none", "short", "s", "bytes", "percentunit", "reqps", "cps", "Bps", "watt", "celsius"}
PROMETHEUS_S = 120  # on a busy machine


def fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Prometheus:
    """A Prometheus that scrapes one server every second, with the alerts of deploy/, which fire
    without delay."""

    def __init__(self, folder: Path, target: str) -> None:
        rules = re.sub(r"\n +for: .*", "", (DEPLOY / "prometheus" / "alerts.yaml").read_text())
        (folder / "alerts.yaml").write_text(rules)
        config = (DEPLOY / "prometheus" / "prometheus.yaml").read_text()
        config = config.replace("127.0.0.1:9464", target).replace("15s", "1s")
        (folder / "prometheus.yaml").write_text(config)
        self.url = f"http://127.0.0.1:{free_port()}"
        self.database = folder / "tsdb" / "wal"
        self.database.mkdir(parents=True)
        self.log = (folder / "prometheus.log").open("wb")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/tsdb",
             f"--web.listen-address={self.url.removeprefix('http://')}"], stdout=self.log, stderr=self.log)

    def query(self, expression: str) -> list[dict]:
        try:
            status, body = fetch(f"{self.url}/api/v1/query?query={urllib.parse.quote(expression)}")
        except urllib.error.URLError:  # not started yet
            assert self.process.poll() is None, "Prometheus ended"
            return []
        assert status in (200, 503), body
        return json.loads(body)["data"]["result"] if status == 200 else []

    def wait(self, expression: str) -> list[dict]:
        """Waits until the query has a result: asks after each write to the log of its database."""
        deadline = time.monotonic() + PROMETHEUS_S
        watch = FolderWatch(self.database)
        try:
            while not (found := self.query(expression)):
                changed, _, _ = select.select([watch.descriptor], [], [], max(0.0, deadline - time.monotonic()))
                assert changed, f"no answer to {expression}"
                os.read(watch.descriptor, 1 << 16)
            return found
        finally:
            watch.close()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()


@pytest.fixture(scope="module")
def watched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """A server with figures of a GPU, from a library that stands for NVML, and the address of its
    operations port."""
    library = request.config.getoption("--nvml-library")
    if library is None:
        pytest.skip("needs --nvml-library")
    folder = tmp_path_factory.mktemp("watched")
    environment = {"LD_LIBRARY_PATH": str(Path(library).resolve().parent), "FAKE_NVML_XID_FILE": str(folder / "xid")}
    server = start_server(request, folder, "--ops-listen", "127.0.0.1:0", "--audit-one-in", "1", environment=environment)
    server.ops = server.ops_address()
    server.xid_file = folder / "xid"
    return server


def exported(address: str) -> set[str]:
    """Returns the names of the samples that the port exports."""
    status, text = fetch(f"http://{address}/metrics")
    assert status == 200
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}


@pytest.fixture
def busy(watched, api, rng: np.random.Generator):
    """The watched server after an upload, searches, a delete and a refused call."""
    calls = api(watched)
    if "busy" not in [each.name for each in watched.admin.ListCollections(watched.pb.ListCollectionsRequest()).collections]:
        calls.create("busy", dim=8)
        calls.upload("busy", list(range(100)), rng.standard_normal((100, 8), dtype=np.float32))
    for _ in range(5):
        calls.search("busy", rng.standard_normal(8, dtype=np.float32), k=3)
    with pytest.raises(Exception, match="RESOURCE_EXHAUSTED"):
        watched.retrieval.Count(watched.pb.CountRequest(collection="busy"), metadata=[("x", "y" * 20000)], timeout=DEADLINE_S)
    return watched


def test_probes_answer(watched) -> None:
    assert fetch(f"http://{watched.ops}/livez") == (200, "ok\n")
    status, body = fetch(f"http://{watched.ops}/readyz")
    assert (status, json.loads(body)["phase"]) == (200, "serving")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool")
def test_promtool_finds_no_fault_in_the_metrics(busy) -> None:
    _, text = fetch(f"http://{busy.ops}/metrics")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_every_alert_names_metrics_that_exist(busy) -> None:
    rules = (DEPLOY / "prometheus" / "alerts.yaml").read_text()
    of_others = {"nearfield_gpu_xid_total", "nearfield_certificate_expires_timestamp_seconds", "nearfield_certificate_replaced"}
    assert set(NAME.findall(rules)) - exported(busy.ops) - of_others == set()


def dashboard_rows() -> list[tuple[dict, list[dict]]]:
    """Returns each row of the dashboard with its panels, which a folded row holds itself."""
    rows: list[tuple[dict, list[dict]]] = []
    for panel in json.loads((DEPLOY / "grafana" / "nearfield.json").read_text())["panels"]:
        if panel["type"] == "row":
            rows.append((panel, list(panel["panels"])))
        else:
            rows[-1][1].append(panel)
    return rows


def dashboard_panels() -> list[dict]:
    return [panel for _, panels in dashboard_rows() for panel in panels]


def test_every_panel_names_metrics_that_exist(busy) -> None:
    named = {name for panel in dashboard_panels() for target in panel["targets"] for name in NAME.findall(target["expr"])}
    assert len(named) > 30
    assert named - exported(busy.ops) == set()


def test_the_dashboard_shows_health_first_and_explains_every_panel() -> None:
    rows = dashboard_rows()
    assert [row["title"] for row, _ in rows[:4]] == ["Health", "Latency", "Refusals", "Memory"]
    assert [row["collapsed"] for row, _ in rows] == [False] * 4 + [True] * (len(rows) - 4)
    panels = dashboard_panels()
    every_id = [each["id"] for each in [*panels, *(row for row, _ in rows)]]
    assert len(set(every_id)) == len(every_id)
    for panel in panels:
        defaults = panel["fieldConfig"]["defaults"]
        assert len(panel["description"]) > 40, panel["title"]
        assert defaults["unit"] in UNITS, panel["title"]
        is_share = any(" / nearfield" in target["expr"] or " / (nearfield" in target["expr"] for target in panel["targets"])
        assert not is_share or defaults["unit"] == "percentunit", panel["title"]
    for title in ("Wrong answers and rows", "Ready", "Search time", "Queues and limits in use", "Memory in use", "Disk free"):
        (panel,) = [each for each in panels if each["title"] == title]
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert "red" in [step["color"] for step in steps], title
        assert steps[0]["value"] is None and all(before["value"] < after["value"] for before, after in itertools.pairwise(steps[1:]))


def test_no_panel_of_the_dashboard_covers_another() -> None:
    for row, panels in dashboard_rows():
        taken: set[tuple[int, int]] = set()
        for place in [row["gridPos"], *(panel["gridPos"] for panel in panels)]:
            assert place["x"] + place["w"] <= 24
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            assert not cells & taken, place
            taken |= cells
    shown = [row["gridPos"]["y"] for row, _ in dashboard_rows()]
    assert shown == sorted(shown)


def test_every_query_of_the_dashboard_answers(busy, api, rng, tmp_path: Path) -> None:
    expressions = {target["expr"] for panel in dashboard_panels() for target in panel["targets"]}
    assert len(expressions) > 30
    prometheus = Prometheus(tmp_path, busy.ops)
    try:
        prometheus.wait('up{job="nearfield"} == 1')
        # A rate needs an increase between two scrapes.
        before = prometheus.wait("count_over_time(nearfield_ready[1m]) >= 2")
        assert before
        api(busy).search("busy", rng.standard_normal(8, dtype=np.float32), k=3)
        prometheus.wait('increase(nearfield_calls_total{method="Search"}[1m]) > 0')
        for expression in sorted(expressions):
            asked = expression.replace("$instance", busy.ops).replace("$__rate_interval", "1m")
            assert prometheus.query(asked), asked
    finally:
        prometheus.close()


def test_faults_make_alerts_fire(watched, tmp_path: Path) -> None:
    prometheus = Prometheus(tmp_path, watched.ops)
    try:
        prometheus.wait("count_over_time(nearfield_gpu_xid_events_total[1m]) >= 2")
        fired = {each["metric"]["alertname"] for each in prometheus.query('ALERTS{alertstate="firing"}')}
        assert fired - {"NearfieldDiskFull"} == set(), "nothing is wrong, except perhaps the disk of this machine"
        watched.xid_file.touch()
        prometheus.wait('ALERTS{alertname="NearfieldGpuXid",alertstate="firing"}')
        assert 'nearfield_gpu_xid_total{xid="79"} 1' in fetch(f"http://{watched.ops}/metrics")[1]
        # Last: the server ends.
        watched.kill()
        prometheus.wait('ALERTS{alertname="NearfieldDown",alertstate="firing"}')
    finally:
        prometheus.close()
