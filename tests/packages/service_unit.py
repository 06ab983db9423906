"""The parts of a systemd unit that a test needs to run its service without systemd."""

from __future__ import annotations

import pathlib
import shlex
import sys

# prctl(PR_SET_MDWE): no memory that is writable and executable, as MemoryDenyWriteExecute. A kernel
# before 6.3 does not know it and changes nothing.
DENY_WRITE_EXECUTE = "import ctypes, os, sys; ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); os.execvp(sys.argv[1], sys.argv[1:])"


class ServiceUnit:
    """A unit file: the values of each key, in order. An empty value clears the earlier ones."""

    def __init__(self, path: pathlib.Path) -> None:
        self.values: dict[str, list[str]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            key, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                self.values.setdefault(key, []).append(value)
                if not value:
                    self.values[key] = []

    def one(self, key: str) -> str:
        (value,) = self.values[key]
        return value

    def state_directory(self) -> str:
        return f"/var/lib/{self.one('StateDirectory')}"

    def outer_command(self) -> list[str]:
        """Returns the begin of a line that runs a command without executable, writable memory."""
        assert self.one("MemoryDenyWriteExecute") == "yes" and self.one("ProtectSystem") == "strict"
        return [sys.executable, "-c", DENY_WRITE_EXECUTE]

    def command(self) -> list[str]:
        """Returns ExecStart, run by root as the unit's user, with its file mode and without any
        capability."""
        assert self.one("NoNewPrivileges") == "yes" and self.values["CapabilityBoundingSet"] == []
        return [
            "setpriv", "--reuid", self.one("User"), "--regid", self.one("Group"), "--clear-groups", "--no-new-privs",
            "--bounding-set=-all", "--inh-caps=-all",
            "sh", "-c", 'umask "$1"; shift; exec "$@"', "sh", self.one("UMask"), *shlex.split(self.one("ExecStart")),
        ]  # fmt: skip
