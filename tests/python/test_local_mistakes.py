"""nearfield.open names the argument or the variable that is wrong, in words of Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import nearfield
import pytest
from nearfield._library import LIBRARY_VARIABLE


@pytest.mark.parametrize(("settings", "words"), [
    ({"memory_byte": "8GiB"}, "memory_byte: no setting; did you mean memory_bytes?"), ({"wal": 1}, "wal: no setting"),
    ({"memory_bytes": "8G"}, 'memory_bytes = "8G": must be 0 .. 16TiB'), ({"#threads": 1}, "'#threads': no setting of open()"),
])
def test_errors_of_settings_named_a_file_that_does_not_exist(settings, words):
    with pytest.raises((nearfield.InvalidArgument, TypeError)) as raised:
        nearfield.open(None, **settings)
    assert words in str(raised.value) and "file" not in str(raised.value) and "--help" not in str(raised.value)


@pytest.mark.parametrize("address", ["127.0.0.1:50191", "localhost:50051", "[::1]:50051", "unix:/run/nearfield", "http://host:1"])
def test_an_address_became_a_folder(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"^folder: '{re.escape(address)}' is an address; use nearfield.connect"):
        nearfield.open(address, memory_bytes="64MiB")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", ["/nope.so", "/etc/hostname", "libc.so.6"])
def test_a_file_that_is_no_library_did_not_name_the_variable(file):
    done = subprocess.run([sys.executable, "-c", "import nearfield; nearfield.open(None)"], env={**os.environ, LIBRARY_VARIABLE: file},
                          capture_output=True, text=True, check=False)
    assert f"ImportError: {LIBRARY_VARIABLE}={file}: " in done.stderr
