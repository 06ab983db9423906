"""Checks which layer may include which, from the #include lines."""

from __future__ import annotations

import collections
import graphlib
import posixpath
import re

from tidy_rules.tree import Finding, Tree

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')

# The most specific folder decides. A layer may include layers or single headers; "proto" is the
# code generated from proto/. engine/base (status macros, checked arithmetic) does not depend on the
# engine, client/command_line (suggestions, completions, manual pages) depends only on CLI11,
# client/value_text (times and decimals) only on Abseil, and client/keys (the file of API keys) on
# these and OpenSSL, so the server uses them too.
LAYERS: dict[str, frozenset[str]] = {
    layer: frozenset(may.split())
    for layer, may in {
        "engine/include": "",
        "engine/base": "engine/include",
        "engine/score": "engine/base engine/include",
        "engine/bound": "engine/score engine/base engine/include",
        "engine/backend": "engine/corpus engine/score engine/base engine/include",
        "engine/corpus": "engine/backend engine/bound engine/base engine/score engine/include",
        "engine/plan": "engine/base engine/include",
        "engine/cpu": "engine/bound engine/score engine/base engine/backend engine/corpus engine/include",
        "engine/oracle": "engine/score engine/base engine/include",
        "engine/cuda": "engine/base engine/include",
        "engine/topk": "engine/cuda engine/score engine/base engine/include",
        "engine/gpu/memory": "engine/gpu/gpu_options.h engine/gpu/runtime engine/gpu/kernels engine/topk engine/plan engine/backend engine/corpus engine/bound engine/score "
        "engine/base engine/include",
        "engine/gpu/runtime": "engine/base engine/include",
        "engine/gpu/kernels": "engine/cuda engine/base engine/score engine/bound engine/topk nearfield/engine/types.h",
        "engine/gpu": "engine/cuda engine/gpu/kernels engine/gpu/memory engine/gpu/runtime engine/topk engine/plan engine/backend engine/corpus "
        "engine/bound engine/base engine/score engine/include",
        "engine/search": "engine/oracle engine/backend engine/corpus engine/bound engine/score engine/base engine/include",
        "engine/multi": "engine/backend engine/base engine/include",
        "engine": "engine/multi engine/search engine/cpu engine/cuda engine/gpu engine/oracle engine/backend engine/corpus engine/plan engine/score engine/base "
        "engine/include",
        "server/config": "engine/include engine/base client/command_line",
        "server/convert": "engine/include engine/base server/attributes server/audit server/collections server/scheduler/search_request.h server/scheduler/memory_ledger.h server/scheduler/retry_hint.h "
        "server/scheduler/pass_counter.h server/listener/accept_counts.h proto",
        "server/scheduler": "engine/include engine/base server/telemetry",
        "server/store": "engine/include engine/base",
        "server/attributes": "engine/include engine/base client/value_text",
        "server/collections": "client/keys/quota.h engine/include engine/base server/attributes server/store server/scheduler/clock.h "
        "server/scheduler/worker_pool.h server/telemetry/refusal_reason.h",
        "server/audit": "engine/include engine/base server/attributes server/collections server/store server/scheduler/clock.h",
        "server/listener": "engine/include engine/base server/telemetry",
        "server/security": "engine/base client/keys client/value_text",
        "server/telemetry": "engine/include engine/base server/config proto",
        "server/rpc": "engine/include engine/base server/convert server/scheduler server/attributes server/audit server/collections server/config "
        "server/telemetry server/listener/accept_counts.h server/security client/keys proto",
        "server/grpc": "engine/base server/rpc server/convert server/security server/scheduler/memory_ledger.h server/telemetry/refusal_reason.h proto",
        "server/http": "engine/base server/rpc server/config server/convert server/listener server/scheduler/memory_ledger.h server/scheduler/retry_hint.h server/security server/telemetry proto",
        "server/boot": "engine/include engine/base server/audit server/rpc server/collections server/config server/scheduler "
        "server/store server/telemetry",
        "server/c_abi": "engine/include engine/base server/rpc server/config server/convert server/boot server/telemetry proto",
        "server/ops_http": "client/keys/quota.h engine/include engine/base server/attributes server/audit server/collections server/http server/rpc server/config "
        "server/convert server/listener server/scheduler server/security server/store server/telemetry proto",
        "server/process": "client/keys engine/include engine/base server/attributes server/audit server/config server/convert server/boot server/scheduler "
        "server/collections server/store server/rpc server/http server/ops_http server/grpc server/security server/listener server/telemetry proto",
        "client/cpp": "proto",
        "client/formats": "client/cpp client/value_text",
        "client/command_line": "",
        "client/value_text": "",
        "client/keys": "client/value_text",
        "client/cli": "client/cpp client/formats client/command_line client/keys client/value_text proto",
        "tests": "engine engine/include engine/base engine/score engine/bound engine/backend engine/corpus engine/search "
        "engine/plan engine/cpu engine/multi engine/oracle engine/cuda engine/topk engine/gpu engine/gpu/memory engine/gpu/runtime engine/gpu/kernels "
        "server/config server/convert server/scheduler server/store server/attributes server/audit server/collections "
        "server/boot server/c_abi server/process server/listener server/telemetry server/rpc server/http server/ops_http server/grpc server/security client/cpp client/formats client/command_line client/value_text "
        "client/keys client/cli proto",
    }.items()
}

# Include prefixes that differ from the folder of the header.
PREFIXES = (("nearfield/engine/", "engine/include"), ("nearfield/nearfield_topk.h", "engine/include"), ("nearfield/client/", "client/cpp"), ("nearfield/v1/", "proto"))

CUDA = re.compile(
    r"^(cuda|cub/|thrust/|cooperative_groups|mma\.h|nvml|nvtx|device_launch|curand|cublas|sm_\d|nv/target)"
)
RPC = re.compile(r"^(grpc|google/protobuf/|google/rpc/)|\.pb\.h$")
# The messages of the health protocol need no gRPC.
GRPC = re.compile(r"^(grpc/(?!health/v1/health\.pb\.h)|grpcpp/)|\.grpc\.pb\.h$")
# Folders that may include CUDA headers, and folders that must not include those of gRPC and
# protobuf (generated ones included).
CUDA_FOLDERS = ("engine/cuda/", "engine/gpu/", "engine/topk/", "tests/")
RPC_FREE_FOLDERS = (
    "engine/", "server/config/", "server/scheduler/", "server/attributes/", "server/collections/", "server/audit/", "server/store/"
)
# Folders that use the messages but know no transport.
GRPC_FREE_FOLDERS = ("server/rpc/", "server/convert/", "server/boot/", "server/c_abi/", "server/http/")


def layer_of(path: str) -> str | None:
    """Returns the most specific layer whose folder contains this path."""
    for layer in sorted(LAYERS, key=len, reverse=True):
        if path.startswith(layer + "/"):
            return layer
    return None


def target_layer(tree: Tree, path: str, target: str) -> str | None:
    """Returns the layer that an include reaches, or None for a library outside the tree."""
    for prefix, layer in PREFIXES:
        if target.startswith(prefix):
            return layer
    reached = layer_of(target)
    if reached is not None:
        return reached
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return layer_of(beside) if beside in tree.files else None


def folder_findings(path: str, target: str) -> list[str]:
    """Checks includes of libraries: CUDA (CUDA_FOLDERS), gRPC and protobuf (RPC_FREE_FOLDERS,
    GRPC_FREE_FOLDERS), <ranges>."""
    messages = []
    if CUDA.match(target) and not path.startswith(CUDA_FOLDERS):
        messages.append(f"<{target}>: CUDA only in engine/cuda, engine/gpu, engine/topk and tests")
    if RPC.search(target) and path.startswith(RPC_FREE_FOLDERS):
        messages.append(f"<{target}>: no gRPC or protobuf here; only convert, rpc and grpc use them")
    if GRPC.search(target) and path.startswith(GRPC_FREE_FOLDERS):
        messages.append(f"<{target}>: no gRPC here; only grpc and process use it")
    if target == "ranges":
        messages.append("<ranges>: clang-14 cannot compile libstdc++'s views")
    return messages


def include_findings(tree: Tree, path: str, target: str) -> list[str]:
    messages = folder_findings(path, target)
    own, reached = layer_of(path), target_layer(tree, path, target)
    if target.endswith((".cc", ".cu")):
        messages.append(f'"{target}": a source file is compiled, not included')
    if target.startswith("tests/") and own != "tests":
        messages.append(f'"{target}": only tests may include tests')
    elif own is not None and reached is not None and reached != own and not LAYERS[own] & {reached, target}:
        may = ", ".join(sorted(LAYERS[own])) or "nothing"
        messages.append(f'"{target}": {own} may not include {reached}; it may: {may}')
    return messages


def room_of(path: str) -> str:
    """Returns the folder of a file, at most two levels deep."""
    return "/".join(posixpath.dirname(path).split("/")[:2])


def circle_findings(tree: Tree) -> list[Finding]:
    """Finds folders that include each other, on any way."""
    uses: dict[str, dict[str, tuple[str, int]]] = collections.defaultdict(dict)
    for path in tree.cxx:
        for number, line in enumerate(tree.lines(path), 1):
            match = INCLUDE.match(line)
            reached = match and target_layer(tree, path, match.group(2))
            if not reached or path.startswith("tests/") or reached in ("tests", "proto"):
                continue
            own, other = room_of(path), room_of(reached + "/")
            if own != other:
                uses[own].setdefault(other, (path, number))
    try:
        graphlib.TopologicalSorter(uses).prepare()
    except graphlib.CycleError as error:
        circle = error.args[1]  # each is included by the next one
        path, number = uses[circle[1]][circle[0]]
        return [Finding(path, number, "includes", f"folders include each other: {' < '.join(circle)}")]
    return []


def check(tree: Tree) -> list[Finding]:
    findings = circle_findings(tree)
    for path in tree.cxx:
        if path.endswith((".cu", ".cuh")) and not path.startswith(CUDA_FOLDERS):
            findings.append(Finding(path, 1, "includes", "CUDA sources only in engine/cuda, engine/gpu, engine/topk and tests"))
        for number, line in enumerate(tree.lines(path), 1):
            match = INCLUDE.match(line)
            if match is not None:
                messages = include_findings(tree, path, match.group(2))
                findings += [Finding(path, number, "includes", message) for message in messages]
    return findings
