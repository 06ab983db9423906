"""Tests of the programs in a shell: completions in the shells themselves, and manual pages."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


@pytest.fixture
def programs(request):
    """Returns (program, arguments that print its completion, arguments that print its page)."""
    return {"nearfield": (request.config.getoption("--cli"), ["completion"], ["man-page"]),
            "nearfield-server": (request.config.getoption("--server"), ["--completion"], ["--man-page"])}


def output(*command, **more) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=60, **more)
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout


def script(programs, name: str, shell: str) -> str:
    program, completion, _ = programs[name]
    return output(program, *completion, shell)


def in_bash(programs, line: str) -> list[str]:
    """Returns what bash offers for the last word of the line."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    function = "_" + words[0].replace("-", "_")
    asked = (f"{script(programs, words[0], 'bash')}\nCOMP_WORDS=({quoted})\nCOMP_CWORD={len(words) - 1}\n"
             f"{function}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n")
    return output("bash", "--norc", "-u", "-c", asked).split()


@pytest.mark.parametrize(("line", "offered"), [
    ("nearfield se", ["search"]),
    ("nearfield collections ", ["list", "show", "create", "pin", "drop"]),
    ("nearfield --address x:1 uploads l", ["list"]),
    ("nearfield collections create x --metric ", ["dot", "cosine", "l2"]),
    ("nearfield collections create x --metric = c", ["cosine"]),
    ("nearfield upload docs --if", ["--if-missing"]),
    ("nearfield upload docs --addr", ["--address"]),
    ("nearfield completion --he", ["--help"]),
    ("nearfield upload docs ", []),
    ("nearfield upload docs --ids ", []),
    ("nearfield-server --backend ", ["auto", "cpu", "gpu"]),
    ("nearfield-server --log-l", ["--log-level"]),
    ("nearfield-server --data-dir ", []),
])
def test_bash_completes(programs, line, offered):
    """Where nothing is offered, bash completes the names of files."""
    assert in_bash(programs, line) == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize("name", ["nearfield", "nearfield-server"])
def test_other_shells_accept_their_script(programs, tmp_path, name, shell):
    text = script(programs, name, shell)
    assert name in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / name
    file.write_text(text)
    output(shell, "-n", file)


def test_fish_completes(programs):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    for line, offered in [("nearfield collections create x --metric ", ["cosine", "dot", "l2"]), ("nearfield se", ["search"])]:
        found = output("fish", "--no-config", "-c", f"{script(programs, 'nearfield', 'fish')}\ncomplete -C '{line}'")
        assert sorted(each.split("\t")[0] for each in found.splitlines()) == offered


@pytest.mark.parametrize(("name", "section", "part"), [("nearfield", 1, "nearfield collections create"), ("nearfield-server", 8, "--data-dir")])
def test_the_manual_page_has_no_warnings(programs, tmp_path, name, section, part):
    program, _, page = programs[name]
    file = tmp_path / f"{name}.{section}"
    file.write_text(output(program, *page))
    if shutil.which("mandoc"):
        lint = subprocess.run(["mandoc", "-Tlint", "-Wwarning", file], capture_output=True, text=True, check=False).stdout
        # A date would differ from build to build.
        assert [line for line in lint.splitlines() if "missing date" not in line] == []
    formatter = shutil.which("man") or shutil.which("groff")
    if formatter is None:
        pytest.skip("neither man nor groff is installed")
    command = [formatter, "--warnings", "-E", "ascii", "-l"] if formatter.endswith("man") else [formatter, "-man", "-ww", "-Tascii"]
    shown = output(*command, file, env={"MANWIDTH": "200", "LC_ALL": "C", "PATH": "/usr/bin:/bin", "MANPAGER": "cat"})
    text = "".join(line for line in shown)
    for word in ("NAME", "SYNOPSIS", "OPTIONS", "EXIT CODES", part):
        assert word in text, word


@pytest.fixture
def python(programs, tmp_path):
    """python(*arguments) -> the finished `nearfield ARGUMENTS`, where nearfield-text and nearfield-import are
    only what `install` has put into the folder of the program or into one on PATH."""
    home = tmp_path / "bin"
    home.mkdir()
    shutil.copy2(programs["nearfield"][0], home / "nearfield")
    on_path = tmp_path / "path"
    on_path.mkdir()

    def install(folder: str, mark: str) -> None:
        for name in ("text", "import"):
            path = tmp_path / folder / f"nearfield-{name}"
            path.write_text(f'#!/bin/sh\nprintf "%s\\n" {mark} {name} "$@"\nexit 7\n')
            path.chmod(0o755)

    def run(*arguments: str) -> subprocess.CompletedProcess:
        environment = {**os.environ, "PATH": f"{on_path}:/usr/bin:/bin"}
        return subprocess.run([home / "nearfield", *arguments], capture_output=True, text=True, check=False, timeout=60,
                              env=environment)
    run.install = install
    return run


@pytest.mark.parametrize(("given", "passed"), [
    (["text", "notes"], ["--address", "127.0.0.1:50051", "notes"]),
    (["-a", "x:1", "--json", "--timeout", "2.5", "--caller", "me", "text", "notes", "--ask", "why?"],
     ["--address", "x:1", "--timeout", "2.5", "--caller", "me", "--json", "notes", "--ask", "why?"]),
    # Words that are commands or options of nearfield, too.
    (["text", "--collection", "demo", "--ask", "search"], ["--address", "127.0.0.1:50051", "--collection", "demo", "--ask", "search"]),
    (["text", "search", "--json", "-a", "y:2"], ["--address", "127.0.0.1:50051", "search", "--json", "-a", "y:2"]),
    (["text", "--help"], ["--address", "127.0.0.1:50051", "--help"]),
    (["import", "folder", "--from", "docs"], ["--address", "127.0.0.1:50051", "folder", "--from", "docs"]),
])
def test_a_command_of_the_python_package_runs_its_program(python, given, passed):
    command = "import" if "import" in given else "text"
    python.install("path", "PATH")
    done = python(*given)
    assert (done.stdout.split("\n")[:-1], done.stderr, done.returncode) == (["PATH", command, *passed], "", 7)
    python.install("bin", "NEIGHBOR")  # of the same environment
    assert python(*given).stdout.split("\n")[:-1] == ["NEIGHBOR", command, *passed]


@pytest.mark.parametrize(("command", "wanted"), [("text", "pip install './client/python[text]'"),
                                                 ("import", "pip install './client/python'")])
def test_without_the_python_package_the_command_names_it(python, command, wanted):
    done = python(command, "notes")
    assert (done.stdout, done.returncode) == ("", 2)
    assert f"nearfield-{command} is not installed" in done.stderr and wanted in done.stderr
