#!/usr/bin/env python3
"""Writes the archive data/VERSION.tar.xz with a server of that version: data/README.md.

    tests/environment/run --python tests/e2e/write_version_data.py --server build/release/bin/nearfield-server
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import version_data
from calls import Api
from conftest import Server

DATA = Path(__file__).resolve().parent / "data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="the nearfield-server program of the version")
    program = parser.parse_args().server
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = Server(program, folder, ["--backend", "cpu", "--snapshot-dir", str(folder / "snapshots")])
        server.wait_serving()
        api = Api(server)
        version_data.write_before_snapshot(api)
        server.admin.CreateSnapshot(api.pb.CreateSnapshotRequest(name="before"), timeout=60)
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
