"""Tests how scripts/lib/server.py starts a server, waits for it and stops it, with small programs
in place of the server."""

from __future__ import annotations

import pathlib
import signal
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

from server import ServerEnded, ServerProcess  # noqa: E402

SERVING = "print('info serving on 127.0.0.1:4711', flush=True)"
RUN = "signal.pause()"


class Server(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *lines: str) -> ServerProcess:
        code = "\n".join(["import pathlib, signal, sys", *lines])
        server = ServerProcess([sys.executable, "-c", code], self.folder / "log")
        self.addCleanup(server.kill)
        return server

    def test_it_is_ready_when_it_serves(self) -> None:
        server = self.start("print('info listening on 127.0.0.1:4711', flush=True)", "input()", SERVING, RUN)
        self.assertRaisesRegex(ServerEnded, "ended with 1", server.wait_ready)  # input() finds no standard input
        server = self.start(SERVING, RUN)
        self.assertEqual(server.wait_ready(), "127.0.0.1:4711")
        self.assertEqual(server.terminate(), -signal.SIGTERM)

    def test_the_error_of_a_server_that_ended_has_its_code_and_its_log(self) -> None:
        server = self.start("print('no such device')", "sys.exit(3)")
        with self.assertRaises(ServerEnded) as caught:
            server.wait_ready()
        self.assertEqual(str(caught.exception), "the server ended with 3:\nno such device\n")

    def test_a_server_that_is_never_ready_is_a_timeout(self) -> None:
        server = self.start(RUN)
        with self.assertRaises(TimeoutError):
            server.wait_ready(seconds=0.1)

    def test_it_waits_for_a_renamed_file(self) -> None:
        port = self.folder / "port"
        server = self.start(f"new = pathlib.Path({str(port)!r} + '.new')", "new.write_text('4711')", f"new.rename({str(port)!r})", RUN)
        self.assertEqual(server.wait_for(lambda: port.read_text() if port.exists() else None), "4711")

    def test_a_server_that_ignores_sigterm_is_killed(self) -> None:
        server = self.start("signal.signal(signal.SIGTERM, signal.SIG_IGN)", SERVING, RUN, RUN)
        server.wait_ready()
        self.assertEqual(server.terminate(seconds=0.1), -signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
