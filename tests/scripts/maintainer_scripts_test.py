"""Tests of the maintainer scripts of the package nearfield-server on a machine that systemd booted:
when they start, restart and stop the service. Scripts in place of systemd's programs record their
calls."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Runs a command where /run says that systemd booted the machine, and /var/lib has the data of a service only.
BOOTED = """
for folder in /run /var/lib; do mount -t tmpfs none $folder; done
mkdir -p /run/systemd/system /var/lib/nearfield/data /var/lib/nearfield/other
"$@"
status=$?
echo "kept: $(ls /var/lib/nearfield | xargs)"
exit $status
"""
RELOAD = "systemctl --system daemon-reload"


@unittest.skipUnless(os.geteuid() == 0, "mounting needs root")
class MaintainerScripts(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.calls = self.folder / "calls"
        # rmdir: this machine's /etc/nearfield stays.
        for name in ("systemctl", "deb-systemd-invoke", "deb-systemd-helper", "getent", "rmdir"):
            program = self.folder / name
            program.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.calls}"\n', encoding="utf-8")
            program.chmod(0o755)

    def run_script(self, script: str, *arguments: str) -> tuple[list[str], str]:
        """Returns the calls that the script made of systemd, and what it printed."""
        self.calls.write_text("", encoding="utf-8")
        ran = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", BOOTED, "sh",
             "sh", str(ROOT / "deploy/packages" / script), *arguments],
            env={"PATH": f"{self.folder}:/usr/sbin:/usr/bin:/sbin:/bin"},
            capture_output=True, text=True, check=True, timeout=60)  # fmt: skip
        calls = self.calls.read_text(encoding="utf-8").splitlines()
        return [call for call in calls if call.startswith(("systemctl", "deb-systemd-invoke"))], ran.stdout

    def test_an_installation_starts_and_an_upgrade_restarts(self) -> None:
        for old_version, action in (("", "start"), ("0.0.1-1", "restart")):
            calls, _ = self.run_script("postinst", "configure", old_version)
            self.assertEqual(calls, [RELOAD, f"deb-systemd-invoke {action} nearfield-server.service"])

    def test_only_a_removal_stops(self) -> None:
        calls, _ = self.run_script("prerm", "remove")
        self.assertEqual(calls, ["deb-systemd-invoke stop nearfield-server.service"])
        calls, _ = self.run_script("prerm", "upgrade", "99.0-1")
        self.assertEqual(calls, [])

    def test_systemd_learns_of_the_removed_unit(self) -> None:
        calls, printed = self.run_script("postrm", "remove")
        self.assertEqual((calls, printed), ([RELOAD], "kept: data other\n"))

    def test_a_purge_deletes_the_data_of_the_service_only(self) -> None:
        _, printed = self.run_script("postrm", "purge")
        self.assertEqual(printed, "kept: other\n")


if __name__ == "__main__":
    unittest.main()
