"""TLS, client certificates and API keys with the command: keys are made, used, denied and revoked."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import ServerProcess
from edge import new_certificate


@pytest.fixture
def command(request: pytest.FixtureRequest, tmp_path: Path):
    """command(*arguments, code=0, **variables) -> the finished command, whose environment has these variables of
    nearfield only."""
    program = Path(request.config.getoption("--cli")).resolve()

    def run(*arguments: str, code: int = 0, **variables: object) -> subprocess.CompletedProcess:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NEARFIELD_")}
        environment |= {f"NEARFIELD_{name}": str(value) for name, value in variables.items()}
        done = subprocess.run([program, *arguments], env=environment, timeout=120, capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, cwd=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
        return done
    return run


def test_keys_are_made_used_denied_and_revoked(start, tmp_path, command):
    new_certificate(tmp_path, "ca")
    for name in ("server", "client"):
        new_certificate(tmp_path, name, "ca")
    keys = tmp_path / "keys.json"
    for name, scopes, collections in [("operator", "search,read,write,admin", "*"), ("reader", "search", "docs*")]:
        made = command("keys", "create", name, "--scopes", scopes, "--collections", collections, KEY_FILE=keys).stdout
        assert re.fullmatch(r"nf_[0-9a-f]{16}_[0-9a-f]{64}\n", made)
        assert made.strip() not in keys.read_text() and made.strip().split("_")[2] not in keys.read_text()
        (tmp_path / f"{name}.token").write_text(made)
    assert command("keys", "list", KEY_FILE=keys).stdout.count("never") == 2
    for wrong in (["--scopes", "all"], ["--scopes", "read", "--collections", "a*b"], ["--scopes", "read", "--expires", "2000-01-01"]):
        command("keys", "create", "x", *wrong, KEY_FILE=keys, code=2)

    server = start("--data-dir", "none", "--tls-cert", str(tmp_path / "server.pem"), "--tls-key", str(tmp_path / "server.key"),
                   "--tls-client-ca", str(tmp_path / "ca.pem"), "--key-file", str(keys))
    tls = {"ADDRESS": server.address, "CA": tmp_path / "ca.pem", "CLIENT_CERT": tmp_path / "client.pem", "CLIENT_KEY": tmp_path / "client.key"}
    operator = tls | {"TOKEN_FILE": tmp_path / "operator.token"}
    reader = tls | {"TOKEN_FILE": tmp_path / "reader.token"}
    for name in ("docs", "other"):
        command("collections", "create", name, "--dim", "2", "--metric", "dot", **operator)
    assert "other" not in command("collections", "list", **reader).stdout
    assert "PERMISSION_DENIED" in command("collections", "drop", "docs", "--yes", code=3, **reader).stderr
    denied = command("collections", "list", code=3, **tls).stderr
    assert "UNAUTHENTICATED" in denied and "--token-file" in denied
    command("collections", "list", code=4, ADDRESS=server.address, CA=tmp_path / "ca.pem", TOKEN_FILE=tmp_path / "operator.token")
    command("health", **tls)

    reader_id = (tmp_path / "reader.token").read_text().split("_")[1]
    command("keys", "revoke", reader_id, KEY_FILE=keys)
    command("keys", "revoke", reader_id, KEY_FILE=keys, code=1)
    server.process.send_signal(signal.SIGHUP)
    server.wait_for(lambda: server.log.read_text().count("keys loaded") == 2 or None)
    assert "UNAUTHENTICATED" in command("collections", "list", code=3, **reader).stderr
    assert command("collections", "list", **operator).stdout.count("dot") == 2
    for name in ("operator", "reader"):
        assert (tmp_path / f"{name}.token").read_text().split("_")[2].strip() not in server.log.read_text()


def test_a_connection_that_cannot_work_advised_to_start_a_server(start, tmp_path, command):
    """TLS that did not fit, and the operations port, were "is nearfield-server running?"."""
    for name, authority in (("ca", None), ("other", None), ("server", "ca")):
        new_certificate(tmp_path, name, authority)
    ca = tmp_path / "ca.pem"
    plain = start("--data-dir", "none", "--ops-listen", "127.0.0.1:0")
    tls, mutual, unnamed = (
        start("--data-dir", "none", "--tls-cert", str(tmp_path / f"{name}.pem"), "--tls-key", str(tmp_path / f"{name}.key"), *more).address
        for name, more in (("server", ()), ("server", ("--tls-client-ca", str(ca))), ("ca", ())))
    for address, variables, reason in (
        (tls, {}, "the server ended the connection at once: if it uses TLS, give --ca"),
        (mutual, {"CA": ca}, "the server ended the connection at once: it may require --client-cert"),
        (plain.address, {"CA": ca}, "this port does not use TLS: leave out --ca"),
        (unnamed, {"CA": ca}, "the certificate of the server is not for this name"),
        (tls, {"CA": tmp_path / "other.pem"}, "the certificate of the server is not accepted: the authorities in --ca did not sign it"),
        (plain.ops_address(), {}, "this port speaks HTTP/1, as the operations port (9464) does"),
        ("127.0.0.1:1", {}, "is nearfield-server running?"),
    ):
        error = command("collections", "list", code=4, ADDRESS=address, **variables).stderr
        assert f"cannot reach {address}: {reason}" in error


def mounts(*arguments: str) -> list[str]:
    """Returns a command in a mount namespace of its own, where it may mount; skips without the right to make one."""
    command = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--user", "--map-root-user"]), *arguments]
    if subprocess.run([*command[:-len(arguments)], "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not make a mount namespace")
    return command


@pytest.mark.parametrize("is_folder", [True, False], ids=["folder", "file"])
def test_a_revocation_reaches_a_server_that_mounts_the_folder(request, tmp_path, command, is_folder):
    """A container that mounted the key file itself kept the old file: a revoked key stayed valid, and the log said that
    the keys were loaded. With the folder, the revocation is in force; with the file, the log says what to do."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    keys = outside / "keys.json"
    token = command("keys", "create", "reader", "--scopes", "search,read,write,admin", KEY_FILE=keys).stdout
    (tmp_path / "token").write_text(token)
    name = "" if is_folder else "/keys.json"
    if not is_folder:
        (inside / "keys.json").touch()
    program = [request.config.getoption("--server"), "--listen", "127.0.0.1:0", "--ops-listen", "none", "--http-listen", "none", "--data-dir", "none",
               "--key-file", str(inside / "keys.json")]
    server = ServerProcess(mounts("sh", "-c", f'mount --bind "{outside}{name}" "{inside}{name}" && exec "$@"', "sh", *program),
                           tmp_path / "server.log")
    try:
        log = tmp_path / "server.log"
        reader = {"ADDRESS": server.wait_ready(), "TOKEN_FILE": tmp_path / "token"}
        command("collections", "list", **reader)
        key_id = token.split("_")[1]
        command("keys", "revoke", key_id, KEY_FILE=keys)
        server.process.send_signal(signal.SIGHUP)
        if is_folder:
            server.wait_for(lambda: re.search(f"keys loaded .*removed=\"?{key_id}", log.read_text()))
            assert "UNAUTHENTICATED" in command("collections", "list", code=3, **reader).stderr
        else:
            server.wait_for(lambda: re.search("the keys are not reloaded.*mount the folder", log.read_text()))
    finally:
        server.kill()


def test_a_power_loss_leaves_the_old_or_the_new_keys(request, tmp_path, command):
    library = request.config.getoption("--fault-library")
    if library is None:
        pytest.skip("a sanitizer's own interposers and a preloaded library do not go together")
    folder = tmp_path / "keys"
    folder.mkdir()
    file = folder / "keys.json"
    program = Path(request.config.getoption("--cli")).resolve()
    create = [program, "keys", "create", "reader", "--scopes", "read", "--key-file", file]

    def listed() -> int:
        return command("keys", "list", KEY_FILE=file).stdout.count("reader")

    def interrupted(at: int, seed: int) -> bool:
        """Creates a key. Returns whether the power was lost at the call with this number that changes a file."""
        stash = tmp_path / f"stash-{at}-{seed}"
        stash.mkdir()
        faults = {"LD_PRELOAD": library, "NEARFIELD_FAULT_ROOT": str(folder), "NEARFIELD_FAULT_STASH": str(stash),
                  "NEARFIELD_FAULT_KIND": "power", "NEARFIELD_FAULT_AT": str(at), "NEARFIELD_FAULT_SEED": str(seed)}
        done = subprocess.run(create, env=os.environ | faults, timeout=120, capture_output=True, text=True, check=False)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode != 0

    command("keys", "create", "reader", "--scopes", "read", KEY_FILE=file)
    kept, at = 1, 0
    lost = True
    while lost:
        at += 1
        lost = False
        for seed in range(8):
            lost = interrupted(at, seed) or lost
            (folder / "keys.json.new").unlink(missing_ok=True)
            found = listed()
            assert found in ((kept, kept + 1) if lost else (kept + 1,)), f"call {at}, seed {seed}"
            kept = found
    assert at > 4
