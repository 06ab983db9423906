"""Tests that every rule of scripts/tidy finds its violation, planted in a small checkout, and
accepts the clean one."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import stages  # noqa: E402
from tidy_rules import budget, formatting, headers, includes, receipts, registration, shell, sizes, text, tree  # noqa: E402


def header(body: str) -> str:
    return f"#pragma once\n\n{body}\n"


def function(lines: int, signature: str = "int F()") -> str:
    """Returns a function of exactly `lines` lines, from signature to closing brace."""
    return signature + " {\n" + "  G();\n" * (lines - 2) + "}\n"


class PlantedTree(unittest.TestCase):
    """A checkout in a temporary folder, with only the files that a test plants."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        subprocess.run(["git", "init", "--quiet", str(self.root)], check=True)

    def plant(self, files: dict[str, str]) -> tree.Tree:
        for path, content in files.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
        return tree.Tree(self.root)

    def assert_finds(self, findings: list[tree.Finding], *expected: str) -> None:
        """Asserts that there are exactly as many findings as expected texts, and that each contains
        its text."""
        shown = [str(finding) for finding in findings]
        self.assertEqual(len(shown), len(expected), shown)
        for line, part in zip(shown, expected):
            self.assertIn(part, line)


class Layout(PlantedTree):
    def test_top_level_entries_are_fixed(self) -> None:
        planted = self.plant({"docs/x.md": "", "engine/x.h": "", "README.md": "", ".ci/run": ""})
        self.assert_finds(tree.check_layout(planted), "docs:1: top-level entry")

    def test_large_files_are_refused(self) -> None:
        planted = self.plant({"tests/data.bin": "x" * (tree.FILE_BYTES_MAX + 1), "tests/fits.bin": "x" * tree.FILE_BYTES_MAX})
        self.assert_finds(tree.check_layout(planted), "tests/data.bin:1:")

    def test_ignored_files_are_not_looked_at(self) -> None:
        planted = self.plant({".gitignore": "/build/\n", "build/x.cc": "", "engine/x.cc": ""})
        self.assertEqual(planted.cxx, ["engine/x.cc"])


class Includes(PlantedTree):
    def findings(self, path: str, *lines: str, others: tuple[str, ...] = ()) -> list[tree.Finding]:
        files = {path: "".join(f"#include {line}\n" for line in lines)}
        files.update({other: "" for other in others})
        return includes.check(self.plant(files))

    def test_the_table_of_the_house(self) -> None:
        permitted = [
            ("engine/oracle/o.cc", '"engine/score/score.h"'),
            ("engine/cpu/c.cc", '"engine/backend/backend.h"'),
            ("engine/gpu/g.cc", '"engine/gpu/kernels/row_scan/scan.h"'),
            ("engine/gpu/kernels/row_scan/s.cu", "<cub/cub.cuh>"),
            ("engine/gpu/kernels/row_scan/s.cu", '"nearfield/engine/types.h"'),
            ("engine/plan/p.cc", '"engine/base/checked_math.h"'),
            ("engine/engine.cc", '"engine/oracle/oracle.h"'),
            ("server/rpc/s.cc", '"server/collections/catalog.h"'),
            ("server/rpc/s.cc", '"nearfield/v1/common.pb.h"'),
            ("server/grpc/s.cc", '"server/rpc/nearfield_service.h"'),
            ("server/grpc/s.cc", "<grpcpp/grpcpp.h>"),
            ("server/collections/c.cc", '"nearfield/engine/engine.h"'),
            ("client/cli/m.cc", '"nearfield/client/client.h"'),
            ("tests/engine/gpu/k_test.cu", '"engine/gpu/kernels/row_scan/scan.h"'),
            ("tests/engine/x_test.cc", '"absl/status/status.h"'),
        ]
        for path, target in permitted:
            self.assert_finds(self.findings(path, target))
            (self.root / path).unlink()

    def test_every_direction_against_the_table_is_found(self) -> None:
        forbidden = [
            ("engine/oracle/o.cc", '"engine/cpu/cpu_topk_engine.h"'),
            ("engine/oracle/o.cc", '"engine/gpu/kernels/row_scan/scan.h"'),
            ("engine/cpu/c.cc", '"engine/gpu/make_gpu_topk_engine.h"'),
            ("engine/plan/p.cc", '"engine/backend/backend.h"'),
            ("engine/corpus/c.cc", '"engine/plan/plan.h"'),
            ("engine/score/s.h", '"engine/backend/backend.h"'),
            ("engine/gpu/kernels/row_scan/s.cu", '"engine/backend/backend.h"'),
            ("engine/gpu/kernels/row_scan/s.cu", '"nearfield/engine/engine.h"'),
            ("engine/engine.cc", '"engine/gpu/kernels/row_scan/scan.h"'),
            ("engine/include/nearfield/engine/e.h", '"engine/base/checked_math.h"'),
            ("server/scheduler/b.cc", '"server/grpc/search.h"'),
            ("server/rpc/s.cc", '"engine/backend/backend.h"'),
            ("server/rpc/s.cc", "<grpcpp/grpcpp.h>"),
            ("server/rpc/s.cc", '"nearfield/v1/admin.grpc.pb.h"'),
            ("server/rpc/s.cc", '"server/grpc/decode.h"'),
            ("server/grpc/s.cc", '"server/collections/catalog.h"'),
            ("server/grpc/s.cc", '"engine/gpu/make_gpu_topk_engine.h"'),
            ("server/process/main.cc", '"client/cli/table.h"'),
            ("client/cpp/c.cc", '"nearfield/engine/engine.h"'),
            ("client/cpp/c.cc", '"server/config/config.h"'),
            ("engine/cpu/c.cc", '"nearfield/v1/common.pb.h"'),
            ("server/collections/c.cc", '"nearfield/v1/common.pb.h"'),
            ("engine/cpu/c.cc", '"tests/testing/seed.h"'),
        ]
        for path, target in forbidden:
            findings = self.findings(path, target)
            self.assertTrue(findings, f"{path} includes {target} unseen")
            (self.root / path).unlink()

    def test_a_header_beside_the_file_counts_by_its_folder(self) -> None:
        found = self.findings("engine/oracle/o.cc", '"../cpu/c.h"', others=("engine/cpu/c.h",))
        self.assert_finds(found, "engine/oracle may not include engine/cpu")

    def test_folders_that_include_each_other_are_found(self) -> None:
        files = {
            "engine/corpus/c.h": '#include "engine/bound/b.h"\n',
            "engine/bound/b.h": '#include "engine/score/s.h"\n',
            "engine/score/s.h": "",
        }
        self.assert_finds(includes.circle_findings(self.plant(files)))
        planted = self.plant({"engine/score/s.h": '#include "engine/corpus/c.h"\n'})
        self.assert_finds(includes.circle_findings(planted), "folders include each other: ")

    def test_cuda_only_under_the_gpu_engine(self) -> None:
        self.assert_finds(self.findings("engine/corpus/c.cc", "<cuda_runtime.h>"), "CUDA only in engine/cuda")
        self.assert_finds(includes.check(self.plant({"engine/corpus/c.cc": "", "server/k.cu": ""})), "CUDA sources only in")

    def test_rpc_never_in_the_engine(self) -> None:
        self.assert_finds(self.findings("engine/base/b.h", "<grpcpp/grpcpp.h>"), "no gRPC or protobuf")
        self.assert_finds(self.findings("engine/base/b.h", "<google/protobuf/message.h>"), "no gRPC or protobuf")

    def test_ranges_and_sources_are_not_included(self) -> None:
        self.assert_finds(self.findings("engine/base/b.h", "<ranges>", '"engine/base/b.cc"'), "<ranges>", "a source file")


class Sizes(PlantedTree):
    def test_a_file_has_a_limit(self) -> None:
        planted = self.plant({"engine/long.h": "\n" * 401, "engine/fits.h": "\n" * 400})
        self.assert_finds(sizes.check(planted), "engine/long.h:1: 401 lines")

    def test_a_function_has_a_limit(self) -> None:
        for signature in (
            "int F()",
            "void C::F(int a) const",
            "template <typename T>\nstatic T F(T a)",
            "TEST(Suite, Law)",
            "C::C(int a) : a_(a), b_{1}",
            "auto F() -> std::vector<int>",
            "C::~C()",
        ):
            extra = signature.count("\n")
            found = sizes.check(self.plant({"engine/f.cc": "namespace n {\n" + function(71 - extra, signature) + "}\n"}))
            self.assert_finds(found, "71 lines; at most 70")
            self.assertTrue(str(found[0]).startswith("engine/f.cc:2:"), found[0])
            self.assert_finds(sizes.check(self.plant({"engine/f.cc": function(70 - extra, signature)})))

    def test_methods_inside_a_class_count_alone(self) -> None:
        body = "class C {\n public:\n" + function(60) * 2 + function(72, "  void M() override") + " private:\n  int a_;\n};\n"
        self.assert_finds(sizes.check(self.plant({"engine/c.h": body})), "function M: 72 lines")

    def test_a_kernel_may_be_longer(self) -> None:
        kernel = "__global__ void __launch_bounds__(128) Scan(const int* p)"
        self.assert_finds(sizes.check(self.plant({"engine/gpu/kernels/k.cu": function(120, kernel)})))
        self.assert_finds(sizes.check(self.plant({"engine/gpu/kernels/k.cu": function(121, kernel)})), "kernel Scan: 121 lines")

    def test_tables_strings_and_comments_are_no_functions(self) -> None:
        body = (
            "inline constexpr std::array kTable = {\n" + "  Row{.a = F(1)},\n" * 100 + "};\n"
            "enum class E {\n"
            + "  kA,\n" * 80
            + "};\n// int F() {\n"
            + 'const char* s = "int G() {";\n'
            + "// x\n" * 80
        )
        self.assert_finds(sizes.check(self.plant({"engine/t.h": body})))

    def test_python_functions_too(self) -> None:
        self.assert_finds(sizes.check(self.plant({"scripts/x.py": "def f():\n" + "    pass\n" * 70})), "function f: 71 lines")


class Text(PlantedTree):
    def test_each_ban_finds_its_word(self) -> None:
        planted = [
            ("engine/x.cc", "// TODO later", "unfinished"),
            ("deploy/x.sh", "# FIXME", "unfinished"),
            ("scripts/cmake/x.cmake", "add_compile_options(-ffast-math)", "fast-math"),
            ("engine/CMakeLists.txt", "-Xcompiler --use_fast_math", "fast-math"),
            ("CMakePresets.json", "-ftz=true", "fast-math"),
            ("engine/CMakeLists.txt", "-Ofast", "fast-math"),
            ("engine/CMakeLists.txt", "-march=native", "march"),
            ("engine/cpu/x.cc", "_mm256_maddubs_epi16(a, b);", "maddubs"),
            ("engine/gpu/x.cu", "cudaMallocManaged(&p, n);", "managed-memory"),
            ("engine/gpu/x.cu", "cudaMalloc(&p, n);", "device-malloc"),
            ("engine/gpu/x.cc", "cudaMallocAsync(&p, n, s);", "device-malloc"),
            ("server/x.cc", "int a = std::rand();", "rand"),
            ("server/x.cc", "using namespace std;", "using-namespace"),
            ("server/x.cc", "absl::Mutex m;", "absl-mutex"),
            ("server/x.h", "std::mutex mutex_;", "std-mutex"),
            ("engine/base/x.h", "mutable std::shared_mutex mutex_;", "std-mutex"),
            ("server/x.cc", "const std::lock_guard lock(mutex_);", "std-mutex"),
            ("server/x.cc", "std::unique_lock<Mutex> lock(mutex_);", "std-mutex"),
            ("server/x.h", "std::condition_variable changed_;", "std-mutex"),
            ("server/x.cc", "throw std::runtime_error(m);", "exceptions"),
            ("tests/x_test.cc", "std::this_thread::sleep_for(d);", "sleep"),
            ("tests/e2e/x.py", "time.sleep(1)", "sleep"),
            ("tests/x_test.cc", "EXPECT_NEAR(a, b, 1e-6);", "tolerance"),
            ("tests/x_test.cc", "EXPECT_FLOAT_EQ(a, b);", "tolerance"),
            ("tests/e2e/x.py", "assert numpy.allclose(a, b)", "tolerance"),
            ("tests/x_test.cc", "EXPECT_TRUE(true);", "vacuous"),
            ("engine/x.cc", "std::cout << a;", "stdio"),
        ]
        for path, line, rule in planted:
            self.assert_finds(text.check(self.plant({path: line + "\n"})), f"[{rule}]")
            (self.root / path).unlink()

    def test_what_only_looks_alike_passes(self) -> None:
        lines = [
            ("scripts/cmake/x.cmake", "-fno-fast-math -ftz=false -prec-div=true"),
            ("engine/gpu/runtime/arena.cu", "cudaMalloc(&p, n);"),
            ("tests/engine/gpu/x_test.cu", "cudaMalloc(&p, n);"),
            ("engine/x.cc", "std::snprintf(b, n, f);"),
            ("server/x.cc", "condition.wait_for(lock, d);"),
            ("tests/x_test.cc", "EXPECT_EQ(a, b);"),
            ("engine/x.cc", "int strand(int);"),
            ("engine/base/mutex.h", "std::mutex mutex_;"),
            ("engine/base/x.cc", "const MutexLock turn(turn_, std::adopt_lock);"),
            ("tests/x.h", "std::mutex mutex;"),
        ]
        self.assert_finds(text.check(self.plant({path: line + "\n" for path, line in lines})))

    def test_an_exception_needs_its_reason(self) -> None:
        with_reason = "Usleep(); usleep(1);  // tidy: allow(sleep): the clock itself is under test\n"
        without = "usleep(1);  // tidy: allow(sleep):\n"
        self.assert_finds(text.check(self.plant({"tests/x_test.cc": with_reason})))
        self.assert_finds(text.check(self.plant({"tests/x_test.cc": without})), "[sleep]")


class Registration(PlantedTree):
    def test_a_test_that_no_list_names_is_found(self) -> None:
        planted = self.plant({"tests/a/CMakeLists.txt": "nearfield_test(x SOURCES x_test.cc sub/y_test.cu)\n",
                              "tests/a/x_test.cc": "", "tests/a/sub/y_test.cu": "", "tests/a/z_test.cc": "", "tests/b/x_test.cc": ""})
        self.assert_finds(registration.check(planted), "tests/a/z_test.cc:1:", "tests/b/x_test.cc:1:")

    def test_a_longer_name_does_not_register_a_shorter_one(self) -> None:
        planted = self.plant({"tests/CMakeLists.txt": "SOURCES big_scan_test.cc\n", "tests/big_scan_test.cc": "",
                              "tests/scan_test.cc": ""})
        self.assert_finds(registration.check(planted), "tests/scan_test.cc:1:")


class Receipts(PlantedTree):
    def git(self, *command: str) -> str:
        author = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        return subprocess.run(["git", "-C", str(self.root), *author, *command], check=True, capture_output=True, text=True).stdout.strip()

    def test_a_receipt_names_commits_of_the_history(self) -> None:
        self.git("commit", "--quiet", "--allow-empty", "--message", "measured")
        measured = self.git("rev-parse", "HEAD")
        self.git("checkout", "--quiet", "--orphan", "other")
        self.git("commit", "--quiet", "--allow-empty", "--message", "another history")
        kept = self.git("rev-parse", "HEAD")
        receipt = '{{\n "commit": "{}",\n "rows": []\n}}\n'
        folder = "tests/bench/receipts/"
        planted = self.plant({folder + "a.json": receipt.format(kept), folder + "b.json": receipt.format(measured),
                              folder + "c.json": receipt.format("unknown"), folder + "d.json": receipt.format(f"{kept[:7]}; k = 10: {measured[:9]}"),
                              "tests/other.json": receipt.format(measured)})
        self.assert_finds(receipts.check(planted), f"b.json:2: commit {measured} is not", "c.json:2: 'unknown' names no commit",
                          f"d.json:2: commit {measured[:9]} is not")

    def test_a_stage_takes_no_more_than_its_budget_and_half_of_it(self) -> None:
        self.git("commit", "--quiet", "--allow-empty", "--message", "measured")
        budget_s = {name: 60 * stages.STAGES[name].minutes for name in ("dev", "asan", "lint")}
        seconds = {"dev": 1.5 * budget_s["dev"], "asan": 1.5 * budget_s["asan"] + 1, "soak": 1e6}
        cold, warm = ({"commit": self.git("rev-parse", "HEAD"), "seconds": each} for each in (seconds, {"lint": 1.5 * budget_s["lint"] + 1}))
        planted = self.plant({receipts.STAGE_TIMES: json.dumps({"cold": cold, "warm": warm})})
        self.assert_finds(receipts.check(planted), "test_stages_2_cores.json:1: stage asan took ")


class Headers(PlantedTree):
    def test_a_header_is_included_once(self) -> None:
        planted = self.plant(
            {
                "engine/a.h": header("int a;"),
                "engine/b.cuh": "int b;\n",
                "engine/c.h": "#ifndef NEARFIELD_C_H_\n#define NEARFIELD_C_H_\n#endif\n",
                "engine/d-inl.h": "#if defined(D) == defined(HWY_TARGET_TOGGLE)\n",
            }
        )
        self.assert_finds(headers.check_guards(planted), "engine/b.cuh:1: no line '#pragma once'", "engine/c.h:1:")

    def test_a_public_header_compiles_alone(self) -> None:
        planted = self.plant(
            {
                "engine/include/nearfield/engine/a.h": header(
                    "#include <cstdint>\ninline int64_t A() { return 1; }"
                ),
                "engine/include/nearfield/engine/b.h": header("inline std::string B();"),
                "client/cpp/include/nearfield/client/c.h": header('#include "nearfield/engine/a.h"'),
            }
        )
        self.assert_finds(
            headers.check_alone(planted),
            "client/cpp/include/nearfield/client/c.h:1: does not compile alone",
            "engine/include/nearfield/engine/b.h:1: does not compile alone",
        )

    def test_a_public_header_does_not_reach_cuda(self) -> None:
        # The planted header replaces NVIDIA's, so that the rule is also tested without a CUDA
        # toolkit.
        planted = self.plant(
            {
                "engine/include/nearfield/engine/a.h": header('#include "cuda_runtime.h"'),
                "engine/include/nearfield/engine/cuda_runtime.h": header(""),
            }
        )
        self.assertIn("reaches", str(headers.check_alone(planted)[0]))


class Tools(PlantedTree):
    def test_the_formatter_complains(self) -> None:
        planted = self.plant(
            {
                ".clang-format": (ROOT / ".clang-format").read_text(),
                "engine/a.cc": "int  a ;\n",
                "engine/b.cc": "int b;\n",
            }
        )
        self.assert_finds(formatting.check(planted), "engine/a.cc:1: not as clang-format-14")

    def test_shell_scripts_are_strict_and_clean(self) -> None:
        strict = "#!/usr/bin/env bash\nset -euo pipefail\n"
        planted = self.plant({"scripts/loose": "#!/usr/bin/env bash\ntrue\n", "scripts/bad": strict + "cd $1 || exit\n",
                              "scripts/good": strict + "true\n", "deploy/loose": "#!/bin/sh\ntrue\n",
                              "deploy/bad": "#!/bin/sh\nset -e\ncd $1 || exit\n"})
        self.assert_finds(shell.check(planted), "deploy/loose:1:", "scripts/loose:1:", "deploy/bad:3:", "scripts/bad:3:")


class Command(PlantedTree):
    def run_tidy(self) -> subprocess.CompletedProcess[str]:
        return tree.run_tool(str(ROOT / "scripts" / "tidy"), "--root", str(self.root))

    def test_a_clean_tree_passes_and_a_violation_fails(self) -> None:
        self.plant({".clang-format": (ROOT / ".clang-format").read_text(), "engine/base/a.h": header("int A();"),
                    budget.BUDGETS: "engine/base 50\n"})
        self.assertEqual(self.run_tidy().returncode, 0, self.run_tidy().stdout)
        self.plant({"engine/base/b.cc": "// TODO: b\n"})
        failed = self.run_tidy()
        self.assertEqual(failed.returncode, 1)
        self.assertIn("engine/base/b.cc:1:", failed.stdout)


if __name__ == "__main__":
    unittest.main()
