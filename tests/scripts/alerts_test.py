"""Tests the alert rules with promtool: each alert fires for a fault and stays quiet without it, and
the runbook has a line for each."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yaml"
MINUTES = 90
INSTANCE = {"job": "nearfield", "instance": "a"}


def ramp(per_minute: float) -> str:
    return f"0+{per_minute}x{MINUTES}"


def flat(value: float) -> str:
    return f"{value}+0x{MINUTES}"


def calls(per_minute: float, status: str) -> tuple[str, str]:
    return f'nearfield_calls_total{{method="Search",status="{status}"}}', ramp(per_minute)


def durations(fast: float, slow: float) -> list[tuple[str, str]]:
    name = 'nearfield_call_duration_seconds_bucket{{method="Search",le="{}"}}'.format
    return [(name("1"), ramp(fast)), (name("2.5"), ramp(fast + slow)), (name("+Inf"), ramp(fast + slow))]


STARTING, SERVING = 'nearfield_phase{phase="starting"}', 'nearfield_phase{phase="serving"}'
# For each alert: series with which it fires, and series with which it does not.
CASES: dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    "NearfieldDown": ([("up", flat(0))], [("up", flat(1))]),
    "NearfieldRestarts": (
        [("process_start_time_seconds", "0+1x90")],
        [("process_start_time_seconds", "7+0x40 8+0x50")],
    ),
    "NearfieldNotReady": (
        [("nearfield_ready", flat(0)), (STARTING, flat(0))],
        [("nearfield_ready", flat(0)), (STARTING, flat(1))],
    ),
    "NearfieldLoadingStalls": (
        [(STARTING, flat(1)), ("nearfield_loading_bytes", flat(1000))],
        [(STARTING, flat(1)), ("nearfield_loading_bytes", ramp(1000))],
    ),
    "NearfieldWrongAnswer": ([("nearfield_trusted", flat(0))], [("nearfield_trusted", flat(1)), ("nearfield_audit_mismatches_total", flat(0))]),
    "NearfieldAuditRecords": ([("nearfield_audit_records", flat(1))], [("nearfield_audit_records", flat(0))]),
    "NearfieldAuditFails": (
        [('nearfield_audit_answers_total{result="failed"}', ramp(1))],
        [('nearfield_audit_answers_total{result="failed"}', flat(3)), ('nearfield_audit_answers_total{result="audited"}', ramp(1))],
    ),
    "NearfieldFilesDamaged": ([("nearfield_scrub_files_damaged_total", flat(1))], [("nearfield_scrub_files_damaged_total", flat(0))]),
    "NearfieldCollectionDamaged": (
        [('nearfield_collection_serving{collection="c"}', flat(0))],
        [('nearfield_collection_serving{collection="c"}', flat(1))],
    ),
    "NearfieldServerErrors": ([calls(1, "INTERNAL")], [calls(1, "NOT_FOUND"), calls(0, "INTERNAL")]),
    "NearfieldRefusals": (
        [calls(100, "OK"), ('nearfield_refusals_total{reason="deadline"}', ramp(6))],
        [calls(100, "OK"), ('nearfield_refusals_total{reason="deadline"}', ramp(4))],
    ),
    "NearfieldSearchesSlow": (durations(98, 2), durations(1000, 2)),
    "NearfieldQueueFull": (
        [("nearfield_queue_searches", flat(900)), ("nearfield_queue_searches_max", flat(1024))],
        [("nearfield_queue_searches", flat(800)), ("nearfield_queue_searches_max", flat(1024))],
    ),
    "NearfieldMemoryFull": (
        [('nearfield_memory_bytes{memory="device"}', flat(91)), ('nearfield_memory_bytes_max{memory="device"}', flat(100))],
        [('nearfield_memory_bytes{memory="filter_cache"}', flat(100)), ('nearfield_memory_bytes_max{memory="filter_cache"}', flat(100)),
         ('nearfield_memory_bytes{memory="host"}', flat(89)), ('nearfield_memory_bytes_max{memory="host"}', flat(100))],
    ),
    "NearfieldDiskFull": (
        [('nearfield_disk_free_bytes{dir="data"}', flat(9)), ('nearfield_disk_bytes{dir="data"}', flat(100))],
        [('nearfield_disk_free_bytes{dir="data"}', flat(11)), ('nearfield_disk_bytes{dir="data"}', flat(100))],
    ),
    "NearfieldConnectionsRefused": ([("nearfield_connections_refused_total", ramp(1))], [("nearfield_connections_refused_total", flat(5))]),
    "NearfieldDescriptorsFull": (
        [("process_open_fds", flat(81)), ("process_max_fds", flat(100))],
        [("process_open_fds", flat(79)), ("process_max_fds", flat(100))],
    ),
    "NearfieldCertificateNotReplaced": ([("nearfield_certificate_replaced", flat(0))], [("nearfield_certificate_replaced", flat(1))]),
    "NearfieldCertificateExpires": (
        [("nearfield_certificate_expires_timestamp_seconds", flat(6 * 24 * 3600))],
        [("nearfield_certificate_expires_timestamp_seconds", flat(8 * 24 * 3600))],
    ),
    "NearfieldLogLinesDropped": ([("nearfield_log_lines_dropped_total", ramp(1))], [("nearfield_log_lines_dropped_total", flat(5))]),
    "NearfieldGpuXid": ([("nearfield_gpu_xid_events_total", ramp(1))], [("nearfield_gpu_xid_events_total", flat(1))]),
    "NearfieldGpuEcc": (
        [('nearfield_gpu_ecc_errors_total{type="uncorrected"}', ramp(1))],
        [('nearfield_gpu_ecc_errors_total{type="uncorrected"}', flat(7)), ('nearfield_gpu_ecc_errors_total{type="corrected"}', ramp(1))],
    ),
    "NearfieldGpuSilent": ([("nearfield_gpu_sample_age_seconds", ramp(60))], [("nearfield_gpu_sample_age_seconds", flat(2))]),
}


def rules() -> dict[str, dict]:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def with_instance(name: str) -> str:
    """Adds the labels that Prometheus adds to a scraped series."""
    labels = ",".join(f'{key}="{value}"' for key, value in INSTANCE.items())
    return name[:-1] + "," + labels + "}" if name.endswith("}") else f"{name}{{{labels}}}"


def firing(cases: dict[str, list[tuple[str, str]]]) -> set[str]:
    """Returns the alerts that fire at the end of their series, each tried alone, as promtool finds."""
    tests = [{
        "interval": "1m",
        "input_series": [{"series": with_instance(name), "values": values} for name, values in series],
        # Expects that it does not fire, so that no labels have to be named.
        "alert_rule_test": [{"eval_time": f"{MINUTES}m", "alertname": alert, "exp_alerts": []}],
    } for alert, series in cases.items()]  # fmt: skip
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump({"rule_files": [str(RULES)], "tests": tests}, file)  # JSON is YAML
        file.flush()
        done = subprocess.run(["promtool", "test", "rules", file.name], capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    found = set(re.findall(r"^ *alertname: (\w+), time: ", output, re.MULTILINE))
    assert bool(found) == (done.returncode != 0), output
    return found


class Alerts(unittest.TestCase):
    def test_promtool_accepts_rules_and_configuration(self) -> None:
        for command in (["check", "rules", str(RULES)], ["check", "config", str(RULES.parent / "prometheus.yaml")]):
            done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_alert_has_a_case(self) -> None:
        self.assertEqual(set(rules()), set(CASES))

    def test_every_alert_fires_for_its_fault_only(self) -> None:
        self.assertEqual(firing({alert: fault for alert, (fault, _) in CASES.items()}), set(CASES))
        self.assertEqual(firing({alert: none for alert, (_, none) in CASES.items()}), set())

    def test_every_alert_has_a_summary_and_a_severity(self) -> None:
        for alert, rule in rules().items():
            self.assertIn(rule["labels"]["severity"], {"page", "ticket"}, alert)
            self.assertTrue(rule["annotations"]["summary"], alert)

    def test_the_runbook_has_every_alert(self) -> None:
        runbook = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r"^\| `(Nearfield\w+)` \|", runbook, re.MULTILINE), list(rules()))


if __name__ == "__main__":
    unittest.main()
