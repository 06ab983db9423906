"""scripts/wheels: the wheels install into a clean environment without a compiler, and search; and the
wheel of nearfield.topk alone."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.request import urlopen

import pytest
from conftest import ROOT, Server

SEARCH = """
import nearfield
with nearfield.open("data", memory_bytes="64MiB", host_memory_bytes="64MiB", backend="cpu") as client:
    docs = client.create_collection("docs", 2, metric="dot", if_missing=True)
    docs.upload([[1, 0], [0, 1], [1, 1]], mode="replace")
    answer = docs.search([2, 1], k=2)
    assert list(answer.ids) == [2, 0] and list(answer.scores) == [3, 2], answer
"""


# glibc 2.27, of Ubuntu 18.04. libgcc_s of a machine is at least as new as that of its glibc's time.
UBUNTU = "http://archive.ubuntu.com/ubuntu/pool/main/g/"
OLD_PACKAGES = {
    "glibc/libc6_2.27-3ubuntu1.6_amd64.deb": "5b813d4512491cd8fb30b2eb9192349ee75ffe3c9f21ae136cc7b2429f70c3b2",
    "gcc-8/libgcc1_8.4.0-1ubuntu1~18.04_amd64.deb": "116dadf4ceaba7150eb46a6598dd3defa62b1b2a6578fb494f4c932878634994",
}
# Nothing but these packages and the wheel is in reach of a program.
RUN_IN = "exec unshare --mount sh -c 'mount --rbind /proc \"$0/proc\" && mount --rbind /dev \"$0/dev\" && exec chroot \"$0\" \"$@\"'"


@pytest.fixture(scope="module")
def wheels(request, tmp_path_factory) -> list[Path]:
    out = tmp_path_factory.mktemp("wheels")
    build = Path(request.config.getoption("--server")).resolve().parents[1]
    # The client is that of tests/environment/run: building it again would disturb other tests.
    subprocess.run([ROOT / "scripts" / "wheels", "--native", build, "--no-client", "--out", out], check=True)
    return [*out.glob("nearfield_native-*.whl"), *(ROOT / ".venv" / "dist").glob("nearfield-*.whl"),
            *out.glob("nearfield_topk-*.whl")]


@pytest.fixture(scope="module")
def python(wheels, tmp_path_factory) -> Path:
    """The interpreter of an environment that has only the wheels and what they require."""
    venv = tmp_path_factory.mktemp("venv") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run(
        [venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", *wheels],
        check=True, env={"PATH": str(venv / "bin")})
    return venv / "bin" / "python"


def test_the_wheels_fit_every_machine_of_their_platform(wheels):
    native, pure, selection = wheels
    assert re.fullmatch(r"nearfield-[\d.]+-py3-none-any\.whl", pure.name)
    assert re.fullmatch(r"nearfield_native-[\d.]+-py3-none-manylinux_2_27_x86_64\.whl", native.name)
    names = zipfile.ZipFile(native).namelist()
    for wanted in ("lib/libnearfield.so", "lib/libnearfield_topk.so", "bin/nearfield-server", "bin/nearfield", "LICENSE",
                   "share/nearfield/demo/packages.jsonl"):
        assert f"nearfield_native/{wanted}" in names
    assert any(name.startswith("nearfield_native.libs/libprotobuf") for name in names)
    assert re.fullmatch(r"nearfield_topk-[\d.]+-py3-none-manylinux_2_27_x86_64\.whl", selection.name)
    print(*(f"{each.name}: {each.stat().st_size / 1e6:.1f} MB" for each in wheels), sep="\n")


def test_no_file_is_in_two_wheels(wheels):
    """Else the removal of one package would break another."""
    names = [name for each in wheels for name in zipfile.ZipFile(each).namelist()]
    assert len(names) == len(set(names))


TOPK = """
import sys
sys.path.insert(0, sys.argv[1])
for name in ("nearfield", "nearfield_native", "grpc", "google"):
    sys.modules[name] = None
import numpy as np
from nearfield_topk import _native, topk
values, indices = topk(np.array([[0.5, 2, 2, -1], [3, 1, 7, 5]], np.float32), k=2)
assert values.tolist() == [[2, 2], [7, 5]] and indices.tolist() == [[1, 2], [2, 3]]
print(_native.load()._name)
"""


def test_the_selection_needs_numpy_alone(wheels, tmp_path):
    with zipfile.ZipFile(wheels[2]) as archive:
        archive.extractall(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "NEARFIELD_TOPK_LIBRARY"}
    done = subprocess.run([sys.executable, "-c", TOPK, tmp_path], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == tmp_path / "nearfield_topk" / "lib" / "libnearfield_topk.so"


def test_the_client_selects_with_the_library_of_either_wheel(python, tmp_path):
    program = "from nearfield.topk import _native, _shared_library; import nearfield_topk; print(_native.load()._name)"
    done = subprocess.run([python, "-c", program], cwd=tmp_path, env={"PATH": "/nowhere"}, capture_output=True, text=True,
                          check=False)
    assert done.stdout.strip().endswith("nearfield_topk/lib/libnearfield_topk.so"), done.stderr


def test_a_first_search_needs_no_compiler(python, tmp_path):
    done = subprocess.run([python, "-c", SEARCH], cwd=tmp_path, env={"PATH": "/nowhere"}, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr


def test_the_programs_run(python, tmp_path):
    folder = python.parent
    server = Server(str(folder / "nearfield-server"), tmp_path, ["--backend", "cpu", "--memory-bytes", "64MiB"])
    try:
        server.wait_serving()
        done = subprocess.run([folder / "nearfield", "--address", server.address, "demo"], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0 and "packages" in done.stdout, done.stdout + done.stderr
    finally:
        assert server.terminate() == 0


@pytest.fixture(scope="module")
def old_root(wheels, tmp_path_factory) -> Path:
    """A root file system with glibc 2.27 and the wheel's files."""
    root = tmp_path_factory.mktemp("root")
    for name, digest in OLD_PACKAGES.items():
        with urlopen(UBUNTU + name, timeout=120) as response:
            package = response.read()
        assert hashlib.sha256(package).hexdigest() == digest, name
        subprocess.run(["dpkg-deb", "--fsys-tarfile", "/dev/stdin"], input=package, check=True, stdout=(root / "tar").open("wb"))
        subprocess.run(["tar", "-xf", root / "tar", "-C", root], check=True)
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(root)
    for folder in ("proc", "dev", "tmp"):
        (root / folder).mkdir()
    for program in (root / "nearfield_native" / "bin").iterdir():
        program.chmod(0o755)
    return root


def command_in(root: Path, name: str, folder: Path) -> str:
    """Returns a program that runs one of the wheel's programs in a root file system."""
    command = folder / name
    command.write_text(f"#!/bin/sh\n{RUN_IN} {shlex.quote(str(root))} /nearfield_native/bin/{name} \"$@\"\n", "utf-8")
    command.chmod(0o755)
    return str(command)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a root file system of its own")
def test_the_programs_and_libraries_run_with_glibc_2_27(old_root, tmp_path):
    for library in ("libnearfield.so", "libnearfield_topk.so"):
        linked = subprocess.run(
            ["chroot", old_root, "/lib64/ld-linux-x86-64.so.2", "--list", f"/nearfield_native/lib/{library}"],
            env={**os.environ, "LD_WARN": "1", "LD_BIND_NOW": "1"},
            capture_output=True, text=True, check=True)
        assert "libnearfield_cxx" in linked.stdout and re.findall("not found|not defined|undefined", linked.stdout + linked.stderr) == []
    server = Server(command_in(old_root, "nearfield-server", tmp_path), tmp_path,
                    ["--backend", "cpu", "--memory-bytes", "64MiB", "--data-dir", "/tmp/data"])
    try:
        server.wait_serving()
        assert "/libc-2.27.so" in Path(f"/proc/{server.process.pid}/maps").read_text("utf-8")
        done = subprocess.run([command_in(old_root, "nearfield", tmp_path), "--address", server.address, "demo"], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "packages" in done.stdout, done.stdout + done.stderr
    finally:
        assert server.terminate() == 0
