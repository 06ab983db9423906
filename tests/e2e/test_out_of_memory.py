"""Tests a real server whose n-th allocation fails during its start: it serves, or reports it in one line and exits with 2.

It ended with SIGABRT and a message of the C++ runtime. After every such start, the next one has every row.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import DEADLINE_S

ROWS = 200
OUT_OF_MEMORY = ("out of memory", "Cannot allocate memory", "too little memory")
OWN_FRAMES = ("libnearfield_fault.", "libc.", "libstdc++.", "libjemalloc.")
ARGUMENTS = ["--backend", "cpu", "--threads", "1", "--memory-bytes", "64MiB", "--host-memory-bytes", "64MiB"]


class Starts:
    """Starts of servers on one data directory."""

    def __init__(self, program: str, library: str, folder: Path) -> None:
        self.program, self.library, self.folder = program, library, folder
        self.data = folder / "root" / "data"
        self.data.parent.mkdir()
        self.log = folder / "failed"

    def allocations(self) -> int:
        """Counts the allocations of a whole run."""
        self._end(self._start("count", 0))
        return int((self.folder / "calls").read_text().split()[3])

    def fail(self, at: int) -> tuple[int, str]:
        """Ends the server once it serves. Returns its exit code and its output."""
        return self._end(self._start("enomem", at))

    def failed(self) -> str:
        """Returns the line of the last allocation that failed."""
        return self.log.read_text()

    def _start(self, kind: str, at: int) -> subprocess.Popen:
        self.log.write_text("")
        stash = self.folder / "stash"
        stash.mkdir(exist_ok=True)
        faults = {"LD_PRELOAD": self.library, "NEARFIELD_FAULT_ROOT": str(self.data.parent), "NEARFIELD_FAULT_KIND": kind,
                  "NEARFIELD_FAULT_STASH": str(stash), "NEARFIELD_FAULT_AT": str(at),
                  "NEARFIELD_FAULT_CALLS": str(self.folder / "calls"), "NEARFIELD_FAULT_LOG": str(self.log)}
        return subprocess.Popen([self.program, "--listen", "127.0.0.1:0", "--data-dir", str(self.data), *ARGUMENTS],
                                stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env={**os.environ, **faults})

    @staticmethod
    def _end(process: subprocess.Popen) -> tuple[int, str]:
        written = []
        for line in process.stderr:
            written.append(line)
            if "serving on" in line:
                process.send_signal(signal.SIGTERM)
        return process.wait(timeout=DEADLINE_S), "".join(written)


def ended_by_library(code: int, failed: str, written: str) -> bool:
    """Returns whether a library ended the process because it cannot report the failure.

    OpenSSL's first use and the CUDA runtime, which registers kernels before main, do not check the result of malloc.
    gRPC's gpr_malloc calls abort().
    """
    library = next((name for name in failed.split()[4:] if not name.startswith(OWN_FRAMES)), "")
    if library == "nearfield-server":
        return code == -signal.SIGSEGV and not written
    return code in (-signal.SIGSEGV, -signal.SIGABRT) and library.startswith(("libcrypto.", "libgpr.", "libgrpc."))


def test_a_start_without_memory_serves_or_ends_with_2_in_one_line(request, start, api, tmp_path):
    rows = np.arange(ROWS * 4, dtype="<f4").reshape(ROWS, 4)
    library = request.config.getoption("--fault-library")
    if library is None:
        pytest.skip("a sanitizer's own interposers and a preloaded library do not go together")
    starts = Starts(request.config.getoption("--server"), library, tmp_path)
    first = api(start("--data-dir", str(starts.data), *ARGUMENTS))
    first.create("c", 4)
    first.upload("c", list(range(ROWS)), rows)
    expected = first.answer(first.search("c", rows[:1], ROWS).results[0])
    assert first.server.terminate() == 0

    whole = starts.allocations()
    draw = random.Random(request.config.getoption("--seed"))
    points = request.config.getoption("--crash-points")
    codes: list[int] = []
    for part in range(points):
        at = draw.randint(whole * part // points, whole * (part + 1) // points) + 1
        code, written = starts.fail(at)
        codes.append(code)
        if ended_by_library(code, starts.failed(), written):
            continue
        served = "serving on" in written
        assert code in ((0, 1) if served else (0, 2, 5)), f"allocation {at}: {code}\n{written}"
        if code == 5:  # only in a COMMIT: SQLite may have written its log
            assert "the data directory failed" in written, f"allocation {at}:\n{written}"
        elif code != 0:
            assert any(text in written for text in OUT_OF_MEMORY), f"allocation {at}:\n{written}"
    assert 2 in codes and 0 in codes, codes

    last = api(start("--data-dir", str(starts.data), *ARGUMENTS))
    assert last.answer(last.search("c", rows[:1], ROWS).results[0]) == expected
    assert last.server.terminate() == 0
