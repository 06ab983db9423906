"""Checks that headers are included once, and that each public header compiles alone without CUDA
and protobuf headers."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import tempfile
from concurrent import futures

from tidy_rules.tree import Finding, Tree, run_tool

ONCE = re.compile(r"^#pragma once\n", re.MULTILINE)
# A header that Highway includes once per target has a guard of its own.
PER_TARGET = re.compile(r"HWY_TARGET_TOGGLE|HWY_ONCE")
PUBLIC_FOLDERS = ("engine/include/", "client/cpp/include/")
PROTO_INCLUDE = re.compile(r'#include [<"]nearfield/v1/')
# Headers that a public header of the engine must not include, even if the compiler finds them.
HIDDEN = re.compile(r"/(?:cuda[\w.]*|cub|thrust|google/protobuf|grpc\w*)(?:/|\.h)")


def check_guards(tree: Tree) -> list[Finding]:
    return [
        Finding(path, 1, "guards", "no line '#pragma once'")
        for path in tree.cxx
        if path.endswith((".h", ".cuh"))
        and not ONCE.search(tree.text(path))
        and not PER_TARGET.search(tree.text(path))
    ]


def generate_protos(tree: Tree, folder: str) -> None:
    sources = [str(tree.root / path) for path in tree.files if path.startswith("proto/") and path.endswith(".proto")]
    outputs = [f"--cpp_out={folder}", f"--grpc_out={folder}", "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin"]
    subprocess.run(["protoc", f"-I{tree.root / 'proto'}", *outputs, *sources], check=True)


def compile_alone(tree: Tree, path: str, generated: str) -> list[Finding]:
    include = next(folder for folder in PUBLIC_FOLDERS if path.startswith(folder))
    folders = [f"-I{tree.root / include}"]
    if not include.startswith("engine/"):
        folders += ["-isystem", generated]
    flags = ["-std=c++20", "-fsyntax-only", "-H", "-Wall", "-Wextra", "-Wno-pragma-once-outside-header", "-x", "c++"]
    compiled = run_tool("g++", *flags, *folders, str(tree.root / path))
    if compiled.returncode != 0:
        error = next((line for line in compiled.stderr.splitlines() if "error" in line), "see g++")
        return [Finding(path, 1, "headers", f"does not compile alone: {error}")]
    reached = [line.lstrip(". ") for line in compiled.stderr.splitlines() if re.match(r"^\.+ ", line)]
    hidden = [header for header in reached if HIDDEN.search(header)]
    if include.startswith("engine/") and hidden:
        return [Finding(path, 1, "headers", f"a public header of the engine reaches {hidden[0]}")]
    return []


def check_alone(tree: Tree) -> list[Finding]:
    public = [path for path in tree.cxx if path.startswith(PUBLIC_FOLDERS) and pathlib.PurePath(path).suffix == ".h"]
    with tempfile.TemporaryDirectory() as generated, futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        if any(PROTO_INCLUDE.search(tree.text(path)) for path in public):
            generate_protos(tree, generated)
        found = pool.map(lambda path: compile_alone(tree, path, generated), public)
        return [finding for findings in found for finding in findings]
