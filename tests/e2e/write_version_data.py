#!/usr/bin/env python3
"""Writes the archive data/VERSION.tar.xz with a server of that version: data/README.md.

    tests/e2e/run --version   # makes .venv/e2e
    .venv/e2e/bin/python tests/e2e/write_version_data.py --server build/release/bin/nearfield-server
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

import version_data
from conftest import Api, Server, make_stubs

DATA = Path(__file__).resolve().parent / "data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="the nearfield-server program of the version")
    program = parser.parse_args().server
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "stubs").mkdir()
        pb = make_stubs(folder / "stubs")
        server = Server(program, pb, folder, ["--backend", "cpu", "--snapshot-dir", str(folder / "snapshots")])
        server.wait_serving()
        api = Api(pb, server)
        version_data.write_before_snapshot(api)
        server.admin.CreateSnapshot(pb.CreateSnapshotRequest(name="before"), timeout=60)
        expected = {"snapshot": version_data.record(api)}
        version_data.write_after_snapshot(api)
        expected["data"] = version_data.record(api)
        # Not drained: the catalog's log must be part of the archive.
        server.close()
        (folder / "expected.json").write_text(json.dumps(expected, indent=1))
        with tarfile.open(DATA / f"{version}.tar.xz", "w:xz", preset=9) as archive:
            for entry in ("data", "snapshots", "expected.json"):
                archive.add(folder / entry, entry, filter=without_owner)


def without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


if __name__ == "__main__":
    main()
