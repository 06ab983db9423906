"""Tests of the packages nearfield-server and nearfield: what is in them, and their life on a machine
from the installation to the purge. systemd does not run in a chroot, so the tests run ExecStart of
the unit themselves."""

from __future__ import annotations

import io
import json
import pathlib
import re
import stat
import subprocess
import tarfile
import tempfile
import unittest

from debian_root import APT, ROOT, DebianRoot, package
from service_unit import ServiceUnit

from server import ServerProcess

CONFIG = "etc/nearfield/server.conf"
UNIT = "usr/lib/systemd/system/nearfield-server.service"
STATE = "/var/lib/nearfield"
NOBODY = "65534:65534"
CHANGED = '\nlisten = "127.0.0.1:0"\nmemory_bytes = 256MiB\n'
# systemd-analyze rates a unit from 0 (confined) to 100. CUDA needs devices and the server the network,
# so it is not 0.
EXPOSURE_MAX = 14


def version() -> str:
    found = re.search(r"project\(nearfield VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
    assert found is not None
    return found.group(1)


def newer(built: pathlib.Path, folder: pathlib.Path, version: str) -> pathlib.Path:
    """Makes the same package with a higher version and another default configuration."""
    folder.mkdir(exist_ok=True)
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", str(built), str(tree)], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*$", f"Version: {version}", control.read_text(encoding="utf-8")), encoding="utf-8")
    (tree / "DEBIAN/md5sums").unlink()
    with (tree / CONFIG).open("a", encoding="utf-8") as config:
        config.write("\n# A default of the newer version.\n")
    made = folder / f"nearfield-server_{version}_amd64.deb"
    subprocess.run(["dpkg-deb", "-Znone", "--build", str(tree), str(made)], check=True, capture_output=True)
    return made


class Contents(unittest.TestCase):
    """Tests of the package files, without installing them."""

    def field(self, name: str, field: str) -> str:
        shown = subprocess.run(["dpkg-deb", "--field", str(package(name)), field], check=True, capture_output=True, text=True)
        return shown.stdout.strip()

    def entries(self, name: str) -> list[tarfile.TarInfo]:
        listed = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package(name))], check=True, capture_output=True)
        with tarfile.open(fileobj=io.BytesIO(listed.stdout)) as opened:
            return opened.getmembers()

    def files(self, name: str) -> list[str]:
        return [each.name.removeprefix("./") for each in self.entries(name) if not each.isdir()]

    def test_every_user_can_read_the_files(self) -> None:
        for name in ("nearfield-server", "nearfield", "libnearfield-dev"):
            for each in self.entries(name):
                self.assertEqual(each.mode, 0o755 if each.isdir() or "/bin/" in each.name else 0o644, each.name)

    def test_every_package_has_the_version_and_the_licence(self) -> None:
        for name in ("nearfield-server", "nearfield", "libnearfield-dev"):
            self.assertEqual(self.field(name, "Version"), f"{version()}-1")
            self.assertIn(f"usr/share/doc/{name}/copyright", self.files(name))

    def test_the_dependencies_are_those_of_the_programs(self) -> None:
        self.assertIn("libgrpc++1.51", self.field("nearfield-server", "Depends"))
        self.assertIn("libsqlite3-0", self.field("nearfield-server", "Depends"))
        self.assertNotIn("libsqlite3-0", self.field("nearfield", "Depends"))
        for name in ("nearfield-server", "nearfield"):
            self.assertNotIn("-dev", self.field(name, "Depends"))

    def test_the_files_are_where_debian_expects_them(self) -> None:
        server = self.files("nearfield-server")
        for expected in ("usr/bin/nearfield-server", "usr/share/man/man8/nearfield-server.8", UNIT,
                         "usr/lib/systemd/system/nearfield-gpu.service", CONFIG):  # fmt: skip
            self.assertIn(expected, server)
        command = self.files("nearfield")
        for expected in ("usr/bin/nearfield", "usr/share/bash-completion/completions/nearfield",
                         "usr/share/man/man1/nearfield.1", "usr/share/nearfield/demo/packages.fp16.npy"):  # fmt: skip
            self.assertIn(expected, command)
        for name in ("nearfield-server", "nearfield", "libnearfield-dev"):
            outside = [each for each in self.files(name) if not each.startswith("usr/") and each != CONFIG]
            self.assertEqual(outside, [], name)

    def test_the_unit_is_confined(self) -> None:
        unit = str(ROOT / "deploy/systemd/nearfield-server.service")
        analyzed = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MAX}", unit],
            check=False, capture_output=True, text=True)  # fmt: skip
        self.assertEqual(analyzed.returncode, 0, analyzed.stdout + analyzed.stderr)
        self.assertNotIn("Unknown key", analyzed.stderr)


class Life(unittest.TestCase):
    """Tests of installed packages in a Debian root file system."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.root = DebianRoot()
        self.addCleanup(self.root.close)
        self.address = ""

    def inside(self, user: str, *command: str) -> list[str]:
        """Returns the line that runs a command in the root file system as a service with
        ProtectSystem=strict: read-only except for the state directory."""
        enter = str(ROOT / "tests/container/enter")
        return [enter, str(self.root.path), user, str(self.root.path / STATE[1:]), STATE, str(ROOT / "scripts/data"), *command]

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        line = self.inside(NOBODY, "nearfield", "--address", self.address, *arguments)
        return subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)

    def checked(self, *arguments: str) -> str:
        ran = self.command(*arguments)
        self.assertEqual(ran.returncode, 0, f"{arguments}: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def start(self) -> ServerProcess:
        unit = ServiceUnit(self.root.path / UNIT)
        self.assertEqual(unit.state_directory(), STATE)
        log = self.folder / "log"
        server = ServerProcess([*unit.outer_command(), *self.inside("0:0", *unit.command())], log)
        self.addCleanup(server.kill)
        self.address = server.wait_ready()
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r"Cap(?:Prm|Eff|Bnd|Amb):\s*(\w+)", status), ["0" * 16] * 4)
        self.assertNotRegex(status, r"Uid:\s*0")
        self.assertIn("SERVING", self.checked("health"))
        return server

    def stop(self, server: ServerProcess) -> None:
        self.assertEqual(server.terminate(), 0, server.log_end())

    def rows(self) -> str:
        return self.checked("count", "packages").replace(",", "")

    def config(self) -> str:
        return (self.root.path / CONFIG).read_text(encoding="utf-8")

    def test_install_serve_upgrade_remove_purge(self) -> None:
        state = self.root.path / STATE[1:]
        self.root.install(package("nearfield-server"), package("nearfield"))
        for program in ("nearfield", "nearfield-server"):
            self.assertIn(version(), self.root.run(program, "--version").stdout)
        self.root.run("nearfield-server", "--config", f"/{CONFIG}", "--check-config")
        enabled = self.root.path / "etc/systemd/system/multi-user.target.wants/nearfield-server.service"
        self.assertTrue(enabled.is_symlink())
        owner = self.root.run("stat", "--format", "%U:%G %a", STATE).stdout.strip()
        self.assertEqual(owner, "nearfield:nearfield 700")

        # The unit's command serves as the unit's user, with its own configuration.
        with (self.root.path / CONFIG).open("a", encoding="utf-8") as opened:
            opened.write(CHANGED)
        server = self.start()
        self.checked("upload", "packages", "/usr/share/nearfield/demo/packages.fp16.npy", "--create", "--metric", "dot",
                     "--payloads", "/usr/share/nearfield/demo/packages.jsonl", "--id-field", "id")  # fmt: skip
        answer = json.loads(self.checked("search", "packages", "--id", "gimp", "-k", "5", "--verify", "--json"))
        self.assertTrue(answer["verified"])
        self.checked("snapshot", "create", "monday")
        self.stop(server)
        self.assertEqual(stat.S_IMODE((state / "data").stat().st_mode), 0o700)

        # An upgrade keeps the data and the changed configuration, although its default changed too.
        self.root.install(newer(package("nearfield-server"), self.folder, "99.0-1"))
        self.assertTrue(self.config().endswith(CHANGED))
        self.assertIn("newer version", (self.root.path / f"{CONFIG}.dpkg-dist").read_text(encoding="utf-8"))
        server = self.start()
        self.assertIn("5000", self.rows())
        self.stop(server)

        # Removal keeps both; so does a second installation.
        self.root.run(*APT, "remove", "nearfield-server")
        self.assertFalse((self.root.path / "usr/bin/nearfield-server").exists())
        self.assertFalse((self.root.path / UNIT).exists())
        self.root.install(package("nearfield-server"))
        self.assertTrue(self.config().endswith(CHANGED))
        server = self.start()
        self.assertIn("5000", self.rows())
        self.stop(server)

        # A purge deletes both, and the links of the unit. The user stays, and so does the catalog of a
        # server that root started by hand.
        (state / "catalog.db").touch()
        self.root.run(*APT, "purge", "nearfield-server")
        for gone in (self.root.path / "etc/nearfield", enabled):
            self.assertFalse(gone.exists() or gone.is_symlink(), str(gone))
        self.assertEqual([each.name for each in state.iterdir()], ["catalog.db"])
        (state / "catalog.db").unlink()
        self.root.run("getent", "passwd", "nearfield")
        self.root.run("nearfield", "--version")

        # An unchanged configuration follows the package.
        self.root.install(package("nearfield-server"))
        self.root.install(newer(package("nearfield-server"), self.folder / "again", "99.0-1"))
        self.assertIn("newer version", self.config())

        self.root.run(*APT, "purge", "nearfield-server")
        self.assertFalse(state.exists())


if __name__ == "__main__":
    unittest.main()
