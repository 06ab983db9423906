"""TLS, client certificates and API keys of both clients, against a real server."""

from __future__ import annotations

import hashlib
import json
import secrets
import urllib.request
from pathlib import Path

import nearfield
import pytest
from edge import new_certificate
from nearfield._identity import read_identity

VARIABLES = ("NEARFIELD_CA", "NEARFIELD_CLIENT_CERT", "NEARFIELD_CLIENT_KEY", "NEARFIELD_TOKEN_FILE", "NEARFIELD_METADATA")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def new_key(scopes: list[str], collections: str = "*") -> tuple[str, dict]:
    """Returns the text of a key, and its entry in a key file."""
    identifier = secrets.token_hex(8)
    text = f"nf_{identifier}_{secrets.token_hex(32)}"
    entry = {"id": identifier, "principal": "tests", "sha256": hashlib.sha256(text.encode()).hexdigest(),
             "scopes": scopes, "collections": collections}  # fmt: skip
    return text, entry


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("identity")
    new_certificate(folder, "ca")
    for name in ("server", "client"):
        new_certificate(folder, name, "ca")
    entries = []
    for name, scopes, collections in [("admin", ["search", "read", "write", "admin"], "*"), ("reader", ["search"], "docs*"),
                                      ("pipeline", ["create", "write", "search"], "*")]:
        text, entry = new_key(scopes, collections)
        entries.append(entry)
        (folder / f"{name}.token").write_text(text + "\n")
    (folder / "keys.json").write_text(json.dumps({"format": 1, "keys": entries}))
    return folder


@pytest.fixture
def server(start, files):
    return start("--tls-cert", str(files / "server.pem"), "--tls-key", str(files / "server.key"),
                 "--tls-client-ca", str(files / "ca.pem"), "--key-file", str(files / "keys.json"))  # fmt: skip


def options(files: Path, token: str) -> dict[str, str]:
    return {"ca": str(files / "ca.pem"), "client_cert": str(files / "client.pem"),
            "client_key": str(files / "client.key"), "token_file": str(files / f"{token}.token")}  # fmt: skip


def test_a_key_decides_what_a_client_may_do(server, files, connect):
    admin = connect(server.address, **options(files, "admin"))
    docs = admin.create_collection("docs", dim=2, metric="dot")
    admin.create_collection("other", dim=2, metric="dot")
    docs.upload([[1, 0], [0, 1]], ids=[1, 2])
    reader = connect(server.address, **options(files, "reader"))
    assert list(reader.collection("docs").search([1, 0], k=1).ids) == [1]
    for call in (lambda: reader.collection("docs").fetch([1]), lambda: reader.collection("other").search([1, 0])):
        with pytest.raises(nearfield.PermissionDenied) as caught:
            call()
        assert caught.value.request_id is not None
    assert [info.name for info in reader.list_collections()] == ["docs"]


def test_the_environment_stands_in_for_arguments(server, files, connect, monkeypatch):
    for name, value in zip(VARIABLES, [*options(files, "admin").values(), "x-team=a,x-stage=b"], strict=True):
        monkeypatch.setenv(name, value)
    connect(server.address).list_collections()
    with pytest.raises(nearfield.Unauthenticated, match="; give token_file= or NEARFIELD_TOKEN_FILE"):
        connect(server.address, token_file="").list_collections()
    assert dict(read_identity(server.address).metadata)["x-stage"] == "b"


@pytest.mark.parametrize("guarded", [False, True])
def test_the_code_of_the_page_of_an_empty_server_runs(start, files, tmp_path, monkeypatch, capsys, guarded):
    """Three lines after the import. With TLS and keys they name files, which the page explains."""
    identity = ["--tls-cert", files / "server.pem", "--tls-key", files / "server.key", "--tls-client-ca", files / "ca.pem",
                "--key-file", files / "keys.json"]  # fmt: skip
    server = start("--ops-listen", "127.0.0.1:0", *map(str, identity if guarded else []))
    with urllib.request.urlopen(f"http://{server.ops_address()}/start.json") as reply:
        shown = json.load(reply)
    assert shown["address"] == server.address
    sources = {"ca.pem": "ca.pem", "client.pem": "client.pem", "client.key": "client.key", "key.txt": "pipeline.token"}
    assert [each.split(":")[0] for each in shown["files"]] == (list(sources) if guarded else [])
    for name, source in sources.items() if guarded else ():
        (tmp_path / name).write_bytes((files / source).read_bytes())
    monkeypatch.chdir(tmp_path)
    assert len(shown["python"].splitlines()) == 1 + 3
    exec(compile(shown["python"], "start.json", "exec"), {})
    assert capsys.readouterr().out == "['orange', 'red']\n"


def test_a_client_without_certificate_or_tls_gets_no_answer(server, files, connect):
    without = options(files, "admin") | {"client_cert": "", "client_key": ""}
    for arguments in (without, {}):
        client = connect(server.address, timeout=2, retry=nearfield.RetryPolicy(tries_max=1), **arguments)
        with pytest.raises(nearfield.Error) as caught:
            client.list_collections()
        assert caught.value.request_id is None


@pytest.mark.parametrize(
    ("address", "arguments", "part"),
    [
        ("example.org:50051", {"token_file": "TOKEN"}, "unencrypted"),
        ("ipv4:127.0.0.1:1,192.0.2.1:1", {"token_file": "TOKEN"}, "unencrypted"),
        ("127.0.0.1:1", {"token_file": "/none"}, "token_file: /none"),
        ("127.0.0.1:1", {"ca": "/none"}, "ca: /none"),
        ("127.0.0.1:1", {"client_cert": "a"}, "give both or none"),
        ("127.0.0.1:1", {"client_cert": "a", "client_key": "b"}, "needs ca"),
        ("127.0.0.1:1", {"metadata": {"Name": "x"}}, "metadata: Name"),
        ("127.0.0.1:1", {"metadata": {"name": "\n"}}, "metadata: name"),
    ],
)
def test_what_cannot_be_sent_is_refused(files, address, arguments, part):
    given = {name: str(files / "admin.token") if value == "TOKEN" else value for name, value in arguments.items()}
    with pytest.raises(ValueError, match=part):
        nearfield.connect(address, **given)


def test_a_key_is_not_shown(files):
    identity = read_identity("127.0.0.1:1", token_file=str(files / "admin.token"))
    text = (files / "admin.token").read_text().strip()
    assert f"Bearer {text}" in dict(identity.metadata).values()
    assert text not in repr(identity)
