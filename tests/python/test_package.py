"""The package: the agent of its README, its types and style, its wheel, and packages next to it."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import nearfield
import pytest
from conftest import ROOT
from readme import block

PACKAGE = ROOT / "client" / "python"
DIST = ROOT / ".venv" / "dist"
MYPY_CACHE = f"--cache-dir={ROOT}/.venv/mypy"  # the types of NumPy take most of the time


def test_an_agent_in_eight_lines(shared, name):
    """The agent of the README finds what was stored; it has eight lines of code."""
    agent = block(PACKAGE / "README.md", "python agent")
    code = [line for line in agent.splitlines() if line.strip() and '"""' not in line]
    assert len(code) <= 8
    client = nearfield.connect(shared.address)
    docs = client.create_collection("memory", 2, metric="cosine", attributes={"language": str})
    docs.upload([[1, 0], [0, 1], [1, 1]], attributes={"language": ["en", "en", "de"]},
                payloads=[{"text": "one"}, {"text": "two"}, {"text": "drei"}])
    namespace: dict = {}
    exec(compile(agent.replace("127.0.0.1:50051", shared.address), "agent", "exec"), namespace)
    assert namespace["recall"]([1, 0.1], "en") == [(0, pytest_score(client, 0), "one"), (1, pytest_score(client, 1), "two")]
    client.drop_collection("memory")


def pytest_score(client: nearfield.Client, row: int) -> float:
    answer = client.collection("memory").search([1, 0.1])
    return float(answer.scores[list(answer.ids).index(row)])


@pytest.mark.parametrize("command", [
    ["mypy", MYPY_CACHE], ["ruff", "check", "--no-cache"], ["ruff", "format", "--check", "--no-cache"],
])
def test_types_and_style(command):
    done = subprocess.run([sys.executable, "-m", *command, *([] if command[0] == "mypy" else ["."])],
                          cwd=PACKAGE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_typed_program_is_checked(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import nearfield

with nearfield.connect("127.0.0.1:50051") as client:
    docs = client.create_collection("docs", 2, metric="dot")
    reveal_type(docs)
    reveal_type(docs.search([1.0, 2.0], k=3))
    reveal_type(docs.count(nearfield.F.year >= 2020).rows_count)
    reveal_type(docs.search_stream([[1.0]]))
    docs.search([1.0], k="3")
    client.create_collection("docs", 2, metric="manhattan")
""")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", MYPY_CACHE, str(program)],
                          cwd=tmp_path, capture_output=True, text=True, check=False)
    for words in ("nearfield._collection.Collection", "nearfield._results.SearchResult", '"int"',
                  "Iterator[nearfield._results.SearchResult]"):
        assert words in done.stdout, done.stdout
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 2 and "arg-type" in errors[0] + errors[1], done.stdout


def test_the_wheel_is_universal_and_holds_only_nearfield():
    (wheel,) = DIST.glob("nearfield-*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {
        "nearfield", f"nearfield-{nearfield.__version__}.dist-info"}
    for wanted in ("nearfield/py.typed", "nearfield/_proto/retrieval_pb2.py", "nearfield/_proto/retrieval_pb2.pyi"):
        assert wanted in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert list(DIST.glob("nearfield-*.tar.gz"))


def test_the_source_distribution_builds_without_protoc(tmp_path):
    """It installed only where grpcio-tools has a wheel. The wheel of an installation is made of it."""
    (sdist,) = DIST.glob("nearfield-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path)
    program = """
import sys
sys.modules["grpc_tools"] = None
from hatchling.build import build_wheel, get_requires_for_build_wheel
assert get_requires_for_build_wheel() == []
print(build_wheel("."))
"""
    folder = tmp_path / sdist.name.removesuffix(".tar.gz")
    done = subprocess.run([ROOT / ".venv" / "build" / "bin" / "python", "-c", program], cwd=folder, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = DIST.glob("nearfield-*.whl")
    assert (folder / wheel.name).read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize(("copied", "words"), [
    ([], "a copy of this folder alone cannot be installed"),
    (["CMakeLists.txt", "proto"], "in a checkout the messages are generated from proto/, with grpcio-tools"),
])
def test_a_build_that_cannot_succeed_says_what_is_missing(tmp_path, copied, words):
    package = tmp_path / "client" / "python"
    package.mkdir(parents=True)
    for name in ("hatch_build.py", "pyproject.toml", "README.md"):
        shutil.copy(PACKAGE / name, package)
    (package / "nearfield").mkdir()
    for name in copied:
        (tmp_path / name).symlink_to(ROOT / name)
    program = "import sys; sys.modules['grpc_tools'] = None; from hatchling.build import build_wheel; build_wheel('.')"
    done = subprocess.run([ROOT / ".venv" / "build" / "bin" / "python", "-c", program], cwd=package, capture_output=True,
                          text=True, check=False)
    assert done.returncode != 0 and words in done.stderr, done.stderr


def test_the_version_is_that_of_the_project():
    wanted = re.search(r"project\(nearfield VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert nearfield.__version__ == importlib.metadata.version("nearfield") == wanted[1]


@pytest.mark.parametrize("implementation", ["upb", "python"])
@pytest.mark.parametrize("first", ["nearfield", "others"])
def test_packages_with_the_same_protos_work_next_to_it(tmp_path, implementation, first):
    """Both register google.rpc.Status and grpc.health.v1 in one process, in either order; and so do
    stubs that a program generated from the protos of nearfield, here under their own names."""
    others = ("from google.rpc import error_details_pb2, status_pb2\nfrom grpc_health.v1 import health_pb2\n"
              "import grpc_status\n")
    own = "import nearfield\nfrom nearfield import _errors, _methods\n"
    program = (own + others if first == "nearfield" else others + own) + """
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool
status = status_pb2.Status(code=3, message="m")
detail = status.details.add()
detail.Pack(error_details_pb2.ErrorInfo(reason="R", metadata={"field": "k", "limit": "4096"}))
import grpc
error = _errors.error_of(grpc.StatusCode.INVALID_ARGUMENT, "m", [("grpc-status-details-bin", status.SerializeToString())])
assert (error.field, error.limit) == ("k", "4096")
for file in ("common", "retrieval"):
    proto = descriptor_pb2.FileDescriptorProto(name=f"nearfield/v1/{file}.proto", package="nearfield.v1")
    proto.message_type.add(name="Filter" if file == "common" else "SearchRequest")
    descriptor_pool.Default().Add(proto) if hasattr(descriptor_pool.Default(), "Add") else \\
        descriptor_pool.Default().AddSerializedFile(proto.SerializeToString())
"""
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr


def test_it_imports_without_the_optional_packages(tmp_path):
    program = """
import sys
for name in ("pyarrow", "pandas", "h5py", "tqdm"):
    sys.modules[name] = None
import nearfield
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
