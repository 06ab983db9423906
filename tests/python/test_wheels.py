"""scripts/wheels: the wheels install into a clean environment without a compiler, and search; and the
wheel of nearfield.topk alone."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

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
    native, pure, _ = wheels
    assert re.fullmatch(r"nearfield-[\d.]+-py3-none-any\.whl", pure.name)
    assert re.fullmatch(r"nearfield_native-[\d.]+-py3-none-manylinux_2_36_x86_64\.whl", native.name)
    names = zipfile.ZipFile(native).namelist()
    for wanted in ("lib/libnearfield.so", "lib/libnearfield_topk.so", "bin/nearfield-server", "bin/nearfield", "LICENSE",
                   "share/nearfield/demo/packages.jsonl"):
        assert f"nearfield_native/{wanted}" in names
    assert any(name.startswith("nearfield_native.libs/libprotobuf") for name in names)
    print(f"{native.name}: {native.stat().st_size / 1e6:.1f} MB")


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
    selection = wheels[2]
    assert re.fullmatch(r"nearfield_topk-[\d.]+-py3-none-manylinux_2_34_x86_64\.whl", selection.name)
    with zipfile.ZipFile(selection) as archive:
        archive.extractall(tmp_path)
    done = subprocess.run([sys.executable, "-c", TOPK, tmp_path], env={"PATH": "/nowhere"}, capture_output=True, text=True,
                          check=False)
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
