"""Tests of an installation as a stranger does it, from the packages and from the wheels, in root file
systems that have neither a compiler nor a network. The image has the same test in tests/container."""

from __future__ import annotations

import os
import pathlib
import unittest

import first_screen
from debian_root import DebianRoot, package

WHEELS = pathlib.Path(os.environ.get("NEARFIELD_WHEELS", ""))
PIP = "/venv/bin/pip install --quiet --disable-pip-version-check --no-index --find-links /mnt nearfield nearfield-native"


class FirstScreen(unittest.TestCase):
    def root_of(self, tar: str) -> DebianRoot:
        root = DebianRoot(pathlib.Path(os.environ[tar]))
        self.addCleanup(root.close)
        return root

    def check_wheels(self, root: DebianRoot) -> None:
        for each in WHEELS.glob("*.whl"):
            (root.files / each.name).hardlink_to(each)
        root.run_offline("sh", "-ec", f"python3 -m venv /venv; {PIP}")
        screen = first_screen.script("nearfield-server --backend cpu --data-dir /tmp/data --demo", with_python=True)
        ran = root.run_offline("sh", "-c", f"PATH=/venv/bin:$PATH; export PATH; {screen}")
        first_screen.check(self, ran.stdout, with_python=True)

    def test_packages_on_debian_12(self) -> None:
        root = self.root_of("NEARFIELD_DEBIAN_TAR")
        root.update()
        root.install(package("nearfield-server"), package("nearfield"))
        server = "nearfield-server --config /etc/nearfield/server.conf --backend cpu --demo"
        first_screen.check(self, root.run_offline("sh", "-c", first_screen.script(server)).stdout)

    def test_wheels_on_debian_12(self) -> None:
        root = self.root_of("NEARFIELD_DEBIAN_TAR")
        root.update()
        root.install("python3-venv")
        self.check_wheels(root)

    def test_wheels_on_debian_13(self) -> None:
        self.check_wheels(self.root_of("NEARFIELD_DEBIAN_13_TAR"))


if __name__ == "__main__":
    unittest.main()
