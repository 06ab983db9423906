"""nearfield import: every id, vector bit and value of collections that other stores made with their own
packages; files of vectors; what continues after a kill; and files that are damaged.

The packages are in an environment of their own, .venv/python-stores. Its tests skip if PyPI lacks them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import nearfield
import numpy as np
import pytest
from conftest import ROOT
from nearfield._import import command
from nearfield._import.faiss_files import open_faiss
from nearfield._import.found import Choice, ImportRefused
from nearfield._import.stores import opened

REQUIREMENTS = ROOT / "tests" / "environment" / "requirements-stores.txt"
MAKER = Path(__file__).with_name("stores.py")
VENV = ROOT / ".venv" / "python-stores"
SOURCES = {
    "qdrant mixed": ("qdrant", "--from", "mixed"),
    "qdrant numbers": ("qdrant", "--from", "numbers"),
    "qdrant named": ("qdrant", "--from", "named", "--vector", "a"),
    "collection snapshot": ("docs-1-2026-01-31-12-00-00.snapshot",),
    "shard snapshot": ("shard.snapshot",),
    "chroma": ("chroma",),
    "lance docs": ("lance", "--from", "docs", "--ids", "key", "--metric", "dot"),
    "lance half": ("lance/half.lance", "--metric", "dot"),
    "faiss flat": ("flat.faiss",),
    "faiss map": ("map.faiss",),
    "faiss ivf": ("ivf.faiss",),
    "faiss map_ivf": ("map_ivf.faiss",),
    "faiss ivf_ip": ("ivf_ip.faiss",),
    "faiss sparse": ("sparse.faiss",),
}


def python_of_stores() -> Path:
    """Returns the interpreter that has the packages of the stores, and this client. Makes its environment
    unless it is there."""
    python, uv = VENV / "bin" / "python", Path(sys.executable).with_name("uv")
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    stamp = VENV / ".requirements"
    if not stamp.is_file() or stamp.read_text() != wanted:
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, VENV], check=True)
        command = [uv, "pip", "install", "--quiet", "--only-binary", ":all:", "--python", python, "-r", REQUIREMENTS]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"PyPI lacks the packages of {REQUIREMENTS.name}: {done.stderr.strip()[-300:]}")
        stamp.write_text(wanted)
    return python


@pytest.fixture(scope="module")
def stores(tmp_path_factory) -> Path:
    """The folder with a collection in each store."""
    folder = tmp_path_factory.mktemp("stores")
    done = subprocess.run([python_of_stores(), MAKER, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(autouse=True)
def packages(monkeypatch) -> str:
    """The folder of the packages of the stores, which come after the client's own."""
    folder = str(next(VENV.glob("lib/python3.*/site-packages"), VENV))
    monkeypatch.setattr(sys, "path", [*sys.path, folder])
    return folder


def run_import(shared: Any, *arguments: Any, code: int = 0) -> str:
    """Runs the command; returns what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
        ended = command.main([*map(str, arguments), "--address", shared.address])
    assert ended == code, out.getvalue() + errors.getvalue()
    return errors.getvalue() if code else out.getvalue()


def content(docs: Any) -> list[dict[str, Any]]:
    """Returns all rows of a collection, in the order of the ids."""
    found = []
    for page in docs.scan():
        names = list(page.attributes)
        for i, id in enumerate(list(page.ids)):
            values = {name: page.attributes[name][i] for name in names if page.attributes[name][i] is not None}
            payload = json.loads(page.payloads[i]) if page.payloads[i] else None
            found.append({"id": id if isinstance(id, str) else int(id), "payload": payload, "vector": page.vectors[i].tobytes(),
                          "attributes": {name: value.isoformat() if name == "made" else value for name, value in values.items()}})
    return found


@pytest.mark.parametrize("source", SOURCES)
def test_every_id_bit_and_value_is_that_of_the_store(shared, stores, source):
    rows = np.load(stores / "vectors.npy")
    if source == "lance half":
        rows = rows.astype(np.float16)
    place, *options = SOURCES[source]
    name = source.replace(" ", "-")
    print(run_import(shared, stores / place, *options, "--collection", name))
    wanted = json.loads((stores / "expected.json").read_text())[source]
    for each in wanted:
        each["vector"] = rows[each["vector"]].tobytes()
        each["attributes"] = {key: value for key, value in each["attributes"].items() if value not in (None, [])}
    with nearfield.connect(shared.address) as client:
        docs = client.collection(name)
        found = content(docs)
        assert docs.info().dtype == ("float16" if source == "lance half" else "float32")
    for each in found:
        each["attributes"] = {key: value for key, value in each["attributes"].items() if value != []}
    assert found == sorted(wanted, key=lambda each: each["id"])
    again = json.loads(run_import(shared, stores / place, *options, "--collection", name, "--json"))
    assert again["rows"] == again["rows_resumed"] == len(wanted) and again["dim"] == rows.shape[1]


@pytest.mark.parametrize(("arguments", "words"), [
    (("qdrant",), "name one collection with --from; it has 'mixed', 'named', 'numbers'"),
    (("qdrant", "--from", "no"), "no collection 'no'; it has 'mixed'"),
    (("qdrant", "--from", "named"), "it also has sparse vectors .words.*--vector says which to import: 'a', 'b'"),
    (("qdrant", "--from", "named", "--vector", "c"), "no vector 'c'; it has 'a', 'b'"),
    (("lance", "--from", "docs"), "no metric that nearfield has; give --metric"),
    (("lance", "--from", "docs", "--ids", "price"), "no column of integers or texts 'price'"),
    (("chroma", "--attributes", "colour"), "field 'colour': no row has it"),
    (("qdrant", "--from", "numbers", "--attributes", "deep"), "field 'deep': .*no attribute can hold it"),
    (("graph.faiss",), "byte 4: an index of the kind b'IHNf'; those that hold exact vectors"),
    (("vectors.npy",), "no metric that nearfield has"),
    (("none",), "none: no such file or folder"),
])
def test_a_source_that_does_not_say_enough_names_the_choice(shared, stores, arguments, words):
    place, *options = arguments
    message = run_import(shared, stores / place, *options, "--collection", "refused", code=2)
    assert re.search(words, message), message
    assert str(stores / place) in message


def test_fields_can_be_chosen(shared, stores):
    run_import(shared, stores / "qdrant", "--from", "numbers", "-c", "some", "--attributes", "year,good", "--without", "deep",
               "--embedding-model", "a/model")
    with nearfield.connect(shared.address) as client:
        info = client.get_collection("some")
        assert {each.name: each.text for each in info.attributes} == {"year": "int64", "good": "bool"}
        assert info.embedding_model == "a/model" and info.metric == "dot"
        (payload,) = client.collection("some").fetch([1]).payloads
        assert "deep" not in json.loads(payload) and json.loads(payload)["Upper"] == 1


@pytest.mark.parametrize("damage", ["half", "noise"])
@pytest.mark.parametrize("place", ["chroma/chroma.sqlite3", "qdrant/collection/numbers/storage.sqlite", "shard.snapshot"])
def test_a_damaged_store_is_an_error_with_its_name(shared, stores, packages, tmp_path, place, damage):
    """In a process of its own, which a crash would end."""
    top = Path(place).parts[0]
    source = stores / top
    copy = shutil.copytree(source, tmp_path / top) if source.is_dir() else shutil.copy(source, tmp_path)
    path = tmp_path / place
    data = bytearray(path.read_bytes())
    if damage == "half":
        del data[len(data) // 2:]
    else:
        data[64:] = np.random.default_rng(1).bytes(len(data) - 64)
    path.write_bytes(data)
    options = ["--from", "numbers"] if top == "qdrant" else []
    program = "import sys; sys.path.append(sys.argv.pop(1)); from nearfield._import.command import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program, packages, copy, *options, "-c", "damaged", "--address", shared.address],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and str(copy) in done.stderr, done.stderr


def test_python_m_nearfield_runs_the_command(shared, tmp_path):
    """The exit codes and the output are those of the command."""
    def run(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "-m", "nearfield", *arguments], capture_output=True, text=True, check=False,
                              env={**os.environ, "NEARFIELD_ADDRESS": shared.address})
    file = write_vectors(tmp_path / "rows.fbin", np.eye(3))
    done = run("import", str(file), "--metric", "dot", "-c", "by_module", "--json")
    assert (done.returncode, done.stderr) == (0, "") and json.loads(done.stdout)["rows"] == 3
    done = run("import", str(tmp_path / "absent.fbin"), "--metric", "dot")
    assert done.returncode == 2 and done.stderr.startswith("nearfield import: ") and "absent.fbin" in done.stderr
    assert "usage: nearfield text" in run("text", "--help").stdout
    for arguments, named in (((), "COMMAND = ''"), (("search", "notes"), "COMMAND = 'search'")):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, "") and f"{named}, must be one of import, mcp, text" in done.stderr


VALUES = {"fbin": "<f4", "u8bin": "u1", "i8bin": "i1", "fvecs": "<f4", "bvecs": "u1"}


def write_vectors(path: Path, rows: np.ndarray, header: str = "<u4") -> Path:
    rows = rows.astype(VALUES[path.suffix[1:]])
    if path.suffix.endswith("bin"):
        data = np.array(rows.shape, header).tobytes() + rows.tobytes()
    else:
        data = b"".join(np.int32(rows.shape[1]).tobytes() + row.tobytes() for row in rows)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(("suffix", "header"), [("fbin", "<u4"), ("fbin", "<u8"), ("u8bin", "<u4"), ("u8bin", "<u8"), ("i8bin", "<u4"),
                                                ("i8bin", "<u8"), ("fvecs", ""), ("bvecs", "")])
def test_files_of_vectors(create, shared, rng, tmp_path, suffix, header):
    rows = rng.integers(0, 128, (20, 7)) * (1 if suffix in ("u8bin", "bvecs") else -1)
    path = write_vectors(tmp_path / f"rows.{suffix}", rows, header)
    docs = create(None, like=path)
    docs.upload(path)
    assert docs.fetch(range(20)).vectors.tobytes() == rows.astype(np.float32).tobytes()
    run_import(shared, path, "--metric", "l2", "-c", docs.name + "-i")
    with nearfield.connect(shared.address) as client:
        assert client.collection(docs.name + "-i").fetch(range(20)).vectors.tobytes() == rows.astype(np.float32).tobytes()


@pytest.mark.parametrize("suffix", VALUES)
def test_a_header_that_the_file_contradicts_allocates_nothing(tmp_path, suffix):
    good = write_vectors(tmp_path / f"rows.{suffix}", np.ones((3, 5))).read_bytes()
    path = tmp_path / f"bad.{suffix}"
    huge = [np.array(each, kind).tobytes() for kind in ("<u4", "<u8") for each in ((2**31, 2**31), (1, 2**31), (2**32 - 1, 1), (0, 2**31 - 1))]
    for data in (*(good[:size] for size in range(len(good))), good + b"x", *(each + good for each in huge)):
        path.write_bytes(data)
        try:
            with opened(path, Choice()) as found:
                assert found.array.nbytes <= len(data)
        except ImportRefused as error:
            assert str(path) in str(error)


def faiss_flat(rows: np.ndarray, *, ids: np.ndarray | None = None, kind: bytes = b"IxF2") -> bytes:
    """Returns the bytes of an index, from the description of the format: flat, perhaps with ids."""
    count, dim = rows.shape
    head = np.int32(dim).tobytes() + np.int64(count).tobytes() + np.array([1 << 20] * 2, "<i8").tobytes() + b"\1" + np.int32(1).tobytes()
    data = kind + head + np.uint64(rows.size).tobytes() + rows.astype("<f4").tobytes()
    if ids is not None:
        data = b"IxMp" + head + data + np.uint64(len(ids)).tobytes() + ids.astype("<i8").tobytes()
    return data


def read_faiss(path: Path) -> int:
    found = open_faiss(path, Choice())
    return len(found.array) if found.array is not None else sum(len(part.vectors) for part in found.parts())


def test_a_damaged_index_of_faiss_is_refused(rng, tmp_path, request):
    """Each truncation, and each field of eight bytes with a large number."""
    path = tmp_path / "rows.faiss"
    whole = [faiss_flat(rng.random((9, 4)), ids=np.arange(9))]
    if VENV.is_dir():
        whole += [(request.getfixturevalue("stores") / f"{name}.faiss").read_bytes()[:4000] for name in ("ivf", "sparse", "map_ivf")]
    path.write_bytes(whole[0])
    assert read_faiss(path) == 9
    for data in whole:
        changed = [data[:size] for size in range(1, len(data), 1 if len(data) < 1000 else 37)]
        changed += [data[:at] + np.uint64(number).tobytes() + data[at + 8:] for at in range(0, min(len(data), 400), 4)
                    for number in (2**63 - 1, 2**40, 2**64 - 1)]
        for each in changed:
            path.write_bytes(each)
            try:
                assert read_faiss(path) <= len(each)
            except ImportRefused as error:
                assert str(path) in str(error)
    for negative in (faiss_flat(rng.random((2, 4)), ids=np.array([3, -5])),):
        path.write_bytes(negative)
        with pytest.raises(ImportRefused, match="the id -5; ids must not be negative"):
            read_faiss(path)


KILLED = """
import os, signal, sys
from nearfield._import import command
def kill(now):
    if now.rows_received:
        os.kill(os.getpid(), signal.SIGKILL)
command._ignore = kill
command.main()
"""


def test_an_import_continues_after_a_kill(shared, tmp_path, rng):
    """The first process ends when the server has confirmed some rows, and nothing is visible."""
    rows = rng.standard_normal((40_000, 64), np.float32)
    path = write_vectors(tmp_path / "rows.fbin", rows)
    arguments = [path, "--metric", "dot", "-c", "killed"]
    done = subprocess.run([sys.executable, "-c", KILLED, *map(str, arguments), "--address", shared.address], check=False,
                          capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with nearfield.connect(shared.address) as client:
        docs = client.collection("killed")
        assert docs.count().rows_count == 0
        assert 0 < json.loads(run_import(shared, *arguments, "--json"))["rows_resumed"] <= len(rows)
        found = np.concatenate([page.vectors for page in docs.scan()])
        assert found.tobytes() == rows.tobytes()


def test_a_server_without_a_data_directory_takes_all_rows_again(start, tmp_path):
    path = write_vectors(tmp_path / "rows.fbin", np.zeros((3, 5)))
    server = start("--data-dir", "none")
    run_import(server, path, "--metric", "cosine", "-c", "docs")
    assert "already in the collection" in run_import(server, path, "--metric", "cosine", "-c", "docs", code=3)


def test_a_missing_package_says_what_to_install(tmp_path, capsys, monkeypatch):
    (tmp_path / "chroma.sqlite3").touch()
    monkeypatch.setitem(sys.modules, "chromadb", None)
    monkeypatch.setattr(command, "_run", lambda client, options: opened(options.source, Choice()).__enter__())
    assert command.main([str(tmp_path)]) == 2
    assert "pip install chromadb" in capsys.readouterr().err


def test_an_import_into_another_declaration_is_refused(create, shared, tmp_path):
    path = write_vectors(tmp_path / "rows.fbin", np.ones((3, 5)))
    for docs, words in ((create(4), "dim 5; the collection"), (create(5, metric="dot"), "metric l2; the collection"),
                        (create(5, id_type="string"), "id_type uint64; the collection"),
                        (create(5, embedding_model="a/model"), "embedding_model other; the collection")):
        message = run_import(shared, path, "--metric", "l2", "-c", docs.name, "--embedding-model", "other", code=2)
        assert words in message and str(path) in message
