"""A Debian root file system in which packages are installed and run.

Reads NEARFIELD_DEBIAN_TAR (the root file system), NEARFIELD_APT_CONF (access to packages) and
NEARFIELD_PACKAGES (the folder of the built packages); scripts/packages sets them.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))  # for server.py
PACKAGES = pathlib.Path(os.environ.get("NEARFIELD_PACKAGES", ""))
APT = ("apt-get", "-q", "-y", "-o", "Dpkg::Use-Pty=0", "-o", "Dpkg::Options::=--force-confold")


def package(name: str) -> pathlib.Path:
    """Returns the built package of this name."""
    (found,) = PACKAGES.glob(f"{name}_*.deb")
    return found


class DebianRoot:
    """A root file system of its own, by default of Debian 12, deleted by close(). `files` is the folder
    /mnt in it."""

    def __init__(self, tar: pathlib.Path | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nearfield-packages-")
        self.path = pathlib.Path(self._folder.name) / "root"
        self.files = pathlib.Path(self._folder.name) / "files"
        self.path.mkdir()
        self.files.mkdir()
        subprocess.run(["tar", "-C", str(self.path), "-xf", str(tar or os.environ["NEARFIELD_DEBIAN_TAR"])], check=True)
        # These files are deleted after the test, so dpkg need not wait for the disk.
        (self.path / "etc/dpkg/dpkg.cfg.d/nearfield").write_text("force-unsafe-io\n", encoding="utf-8")
        if tar is None:
            self.update()

    def close(self) -> None:
        self._folder.cleanup()

    def update(self) -> None:
        """Fetches the lists of packages, which install() needs."""
        self.run(*APT, "update")

    def run_offline(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs a command as root, with no network but its own loopback."""
        return self.run(*command, network="none")

    def run(self, *command: str, check: bool = True, network: str = "host") -> subprocess.CompletedProcess[str]:
        """Runs a command as root. With `check`, an exit code other than 0 is an AssertionError."""
        line = [str(ROOT / "tests/packages/run_in"), str(self.path), os.environ["NEARFIELD_APT_CONF"], str(self.files)]
        ran = subprocess.run([*line, *command], capture_output=True, text=True, check=False, timeout=900,
                             env={**os.environ, "NEARFIELD_NETWORK": network})  # fmt: skip
        if check and ran.returncode != 0:
            raise AssertionError(f"{command}: exit code {ran.returncode}\n{ran.stdout[-4000:]}{ran.stderr[-4000:]}")
        return ran

    def install(self, *packages: pathlib.Path | str) -> None:
        """Installs package files, and packages by name."""
        names = []
        for each in packages:
            if isinstance(each, pathlib.Path):
                (self.files / each.name).write_bytes(each.read_bytes())
                each = f"/mnt/{each.name}"
            names.append(each)
        self.run(*APT, "install", "--no-install-recommends", *names)
