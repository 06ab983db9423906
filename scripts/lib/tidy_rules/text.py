"""Checks for words, calls and flags that no line may contain."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from tidy_rules.tree import Finding, Tree, allowed


@dataclasses.dataclass(frozen=True)
class Ban:
    """A pattern, the paths where it is banned, and the reason."""

    rule: str
    pattern: re.Pattern[str]
    applies: Callable[[str], bool]
    message: str


def anywhere(path: str) -> bool:
    return not is_tidy_itself(path)


def is_tidy_itself(path: str) -> bool:
    """Returns True for the rules and their tests, which name the banned text."""
    return path.startswith("scripts/lib/tidy_rules/") or path == "tests/scripts/tidy_test.py"


def in_cxx(path: str) -> bool:
    return path.endswith((".h", ".cc", ".cu", ".cuh"))


def in_tests(path: str) -> bool:
    return path.startswith("tests/") and not is_tidy_itself(path)


def outside_arena(path: str) -> bool:
    return in_cxx(path) and not path.startswith(("engine/gpu/memory/", "engine/gpu/runtime/", "tests/"))


def in_build_files(path: str) -> bool:
    return anywhere(path) and path.endswith(("CMakeLists.txt", ".cmake", "CMakePresets.json", "Dockerfile", ".sh"))


def with_checked_locks(path: str) -> bool:
    """Returns True for the production code that can include engine/base/mutex.h: not the client."""
    return in_cxx(path) and not path.startswith(("tests/", "client/")) and path != "engine/base/mutex.h"


def in_engine(path: str) -> bool:
    return path.startswith("engine/")


BANS = (
    Ban("unfinished", re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"), anywhere, "unfinished work: do it, or open an issue"),
    Ban(
        "fast-math",
        re.compile(
            r"(?<!no)-ffast-math|-Ofast|--?use_fast_math|-ftz=true|-prec-(?:div|sqrt)=false|-ffp-contract=fast|"
            r"-funsafe-math|-fassociative-math|-freciprocal-math"
        ),
        in_build_files,
        "scores are bit-exact: no flag may relax IEEE arithmetic",
    ),
    Ban(
        "fast-math",
        re.compile(r"#pragma.*(?:fast_math|fp_contract|float_control)|__fdividef|__expf\(|_MM_SET_(?:FLUSH|DENORMALS)"),
        in_cxx,
        "scores are bit-exact: no pragma or intrinsic may relax IEEE arithmetic",
    ),
    Ban("maddubs", re.compile(r"maddubs|SatWidenMulPairwiseAdd"), in_cxx, "this instruction saturates; int8 products must be exact"),
    Ban("managed-memory", re.compile(r"\bcudaMallocManaged\b"), in_cxx, "device memory comes only from the sealed arena"),
    Ban(
        "device-malloc",
        re.compile(r"\bcuda(?:Malloc|MallocAsync|MallocPitch|Malloc3D|HostAlloc|MallocHost|MallocFromPoolAsync)\b"),
        outside_arena,
        "allocate only in engine/gpu/memory and engine/gpu/runtime, at start",
    ),
    Ban("rand", re.compile(r"\bstd::rand\b|(?<![\w:.>])s?rand\("), in_cxx, "use <random> with the test seed"),
    Ban("using-namespace", re.compile(r"^\s*using\s+namespace\s"), in_cxx, "name the identifiers in use"),
    Ban(
        "absl-mutex",
        re.compile(r"\babsl::(?:Mutex|MutexLock|CondVar)\b"),
        in_cxx,
        "use engine/base/mutex.h: Debian's Abseil is not instrumented for ThreadSanitizer",
    ),
    Ban(
        "std-mutex",
        re.compile(
            r"\bstd::(?:(?:recursive_|shared_)?(?:timed_)?mutex|lock_guard|unique_lock|scoped_lock|shared_lock|"
            r"condition_variable(?:_any)?)\b"
        ),
        with_checked_locks,
        "use engine/base/mutex.h: clang checks its locks",
    ),
    Ban(
        "exceptions",
        re.compile(r"^\s*throw\s|\bthrow\s+\w+[({]"),
        lambda path: in_cxx(path) and not in_tests(path),
        "no exception crosses a nearfield function: return absl::Status",
    ),
    Ban(
        "sleep",
        re.compile(
            r"\bsleep_(?:for|until)\b|\b(?:u|nano)?sleep\s*\(|\btime\.sleep\b|\basyncio\.sleep\b|\babsl::SleepFor\b"
        ),
        in_tests,
        "wait for the event, with a deadline; a sleep is slow or flaky",
    ),
    Ban(
        "tolerance",
        re.compile(
            r"\b(?:EXPECT|ASSERT)_(?:NEAR|FLOAT_EQ|DOUBLE_EQ)\b|\b(?:FloatEq|DoubleEq|FloatNear|DoubleNear)\("
            r"|\ballclose\b|\bisclose\b|assertAlmostEqual|pytest\.approx"
        ),
        in_tests,
        "ids and scores are compared to the bit; state the reason for any other comparison",
    ),
    Ban("vacuous", re.compile(r"\b(?:EXPECT|ASSERT)_TRUE\(true\)|\bSUCCEED\(\)"), in_tests, "a test that cannot fail"),
    Ban("march", re.compile(r"-march=native|-mtune=native"), in_build_files, "one binary for every CPU: Highway dispatches at run time"),
    Ban(
        "stdio",
        re.compile(r"\bstd::c(?:out|err)\b|(?<![\w:])(?:std::)?f?printf\("),
        in_engine,
        "the engine does not log or print: it returns a status",
    ),
)


def check(tree: Tree) -> list[Finding]:
    findings = []
    for path in tree.code + [path for path in tree.files if path.endswith("CMakePresets.json")]:
        bans = [ban for ban in BANS if ban.applies(path)]
        for number, line in enumerate(tree.lines(path), 1):
            for ban in bans:
                if (found := ban.pattern.search(line)) and not allowed(line, ban.rule):
                    findings.append(Finding(path, number, ban.rule, f"'{found[0].strip()}': {ban.message}"))
    return findings
