#!/usr/bin/env python3
"""Adds up the results of all stages of scripts/test, prints the minutes of each stage next to those
of the receipt, and the final line: N passed, N failed, N skipped.

The counts are of single test cases. For GoogleTest, pytest and unittest they are read from the
final lines of their output, which ctest keeps in its JUnit file. Any other ctest entry (a benchmark
in its tiny mode) counts as one case, and so does a stage that is one check (tidy, lint, container).
A GoogleTest case is a separate ctest entry; one that skipped itself counts as skipped. Skipped and
failed cases are listed by name. The end of a failed case's output is repeated, so that the end of a
long log shows the reason. Cases that passed with the same inputs before, and did not run again, count
as passed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

import campaign
import stages

RECEIPT = campaign.RECEIPTS / "test_stages_2_cores.json"
LISTED_MAX = 200
END_LINES = 30

GTEST_PASSED = re.compile(r"^\[  PASSED  \] (\d+) tests?\.", re.MULTILINE)
GTEST_SKIPPED = re.compile(r"^\[  SKIPPED \] ([\w/.]+\.[\w/.]+)(?: \(\d+ ms\))?$", re.MULTILINE)
GTEST_FAILED = re.compile(r"^\[  FAILED  \] ([\w/.]+\.[\w/.]+)", re.MULTILINE)
PYTEST_CLOSING = re.compile(
    r"^=*\s*((?:\d+ (?:passed|failed|skipped|errors?|xfailed|xpassed|deselected|warnings?)(?:, )?)+) in ", re.MULTILINE
)
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
UNITTEST_CLOSING = re.compile(r"^(?:OK|FAILED)(?: \(([\w=, ]*)\))?$", re.MULTILINE)


@dataclasses.dataclass
class Tally:
    """The results: the number of cases that passed, how many of them before and not again, and the
    names of those that did not pass."""

    passed: int = 0
    before: int = 0
    failed: list[str] = dataclasses.field(default_factory=list)
    skipped: list[str] = dataclasses.field(default_factory=list)
    # name and end of the output of each failure
    ends: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.passed += other.passed
        self.before += other.before
        self.failed += other.failed
        self.skipped += other.skipped
        self.ends += other.ends


def end_of(output: str) -> str:
    return "\n".join(output.rstrip().splitlines()[-END_LINES:])


def unique(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


def case_name(entry: str, case: str) -> str:
    """Returns the entry's name if it ends with that of the case, else both names."""
    return entry if entry.endswith("." + case) else f"{entry}: {case}"


def gtest_tally(entry: str, output: str) -> Tally | None:
    """Counts the cases of one GoogleTest program; None if the output has no final line of
    GoogleTest."""
    passed = GTEST_PASSED.findall(output)
    if not passed:
        return None
    tally = Tally(
        passed=sum(int(count) for count in passed),
        failed=[case_name(entry, name) for name in unique(GTEST_FAILED.findall(output))],
        skipped=[case_name(entry, name) for name in unique(GTEST_SKIPPED.findall(output))],
    )
    if not (tally.passed or tally.failed or tally.skipped):
        tally.failed.append(f"{entry}: ran no case")
    return tally


def pytest_tally(entry: str, output: str) -> Tally | None:
    closing = PYTEST_CLOSING.findall(output)
    if not closing:
        return None
    tally = Tally()
    for count, word in re.findall(r"(\d+) (\w+)", closing[-1]):
        if word in ("passed", "xfailed"):
            tally.passed += int(count)
        elif word in ("failed", "error", "errors", "xpassed"):
            tally.failed += [f"{entry}: a case of pytest, see above"] * int(count)
        elif word == "skipped":
            tally.skipped += [f"{entry}: a case of pytest"] * int(count)
    return tally


def unittest_tally(entry: str, output: str) -> Tally | None:
    ran = UNITTEST_RAN.findall(output)
    closing = UNITTEST_CLOSING.findall(output)
    if not ran or not closing:
        return None
    counts = {word: int(count) for word, count in re.findall(r"(\w+)=(\d+)", closing[-1])}
    failed = counts.get("failures", 0) + counts.get("errors", 0)
    skipped = counts.get("skipped", 0)
    return Tally(
        passed=int(ran[-1]) - failed - skipped,
        failed=[f"{entry}: a case, see above"] * failed,
        skipped=[f"{entry}: a case"] * skipped,
    )


def entry_tally(entry: str, status: str, output: str) -> Tally:
    """Counts the cases of one ctest entry if its framework is known, else the entry itself. A
    crash is always counted."""
    tally = gtest_tally(entry, output) or pytest_tally(entry, output) or unittest_tally(entry, output)
    if status == "fail":
        tally = tally or Tally()
        if not tally.failed:
            tally.failed.append(f"{entry}: failed after its cases, or timed out")
        return tally
    if status != "run":
        return Tally(skipped=[entry])
    return tally or Tally(passed=1)


def junit_tally(preset: str, path: pathlib.Path) -> Tally:
    tally = Tally()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        entry = f"{preset}/{case.get('name', '?')}"
        output = case.findtext("system-out") or ""
        one = entry_tally(entry, case.get("status", "fail"), output)
        if one.failed:
            one.ends.append((entry, end_of(output)))
        tally.add(one)
    return tally


def stage_tally(results: pathlib.Path, stage: str, status: int) -> Tally:
    known = stages.Known.read(results / f"{stage}.known")
    tally = Tally(known.passed, known.passed, skipped=known.skipped)
    junit = results / f"{stage}.xml"
    unittests = sorted(results.glob(f"{stage}*.unittest"))
    if junit.exists():
        tally.add(junit_tally(stage, junit))
    elif unittests:
        for path in unittests:
            tally.add(unittest_tally(path.stem, path.read_text(encoding="utf-8")) or Tally())
    elif not known.passed:
        tally.passed = 1 if status == 0 else 0
    if status != 0 and not tally.failed:
        tally.failed.append(f"stage {stage}: exit status {status}")
    log = results / f"{stage}.log"
    if tally.failed and not tally.ends and log.exists():
        tally.ends.append((f"stage {stage}", end_of(log.read_text(encoding="utf-8", errors="replace"))))
    if not tally.failed:
        stages.remember(stage, results, stages.Known(tally.passed, tally.skipped))
    return tally


def read_receipt() -> dict[str, campaign.Facts]:
    return json.loads(RECEIPT.read_text(encoding="utf-8")) if RECEIPT.exists() else {}


def write_receipt(caches: str, seconds: dict[str, int]) -> None:
    facts = {"commit": campaign.commit_of(""), **campaign.machine(), "seconds": seconds}
    RECEIPT.write_text(json.dumps({**read_receipt(), caches: facts}, indent=1) + "\n", encoding="utf-8")


def print_minutes(tallies: dict[str, Tally], seconds: dict[str, int]) -> None:
    """Prints a line for each stage: its result, its minutes, those of the receipt, and the budget."""
    receipt = read_receipt()
    last = {caches: receipt.get(caches, {}).get("seconds", {}) for caches in ("cold", "warm")}
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    print("\nstage         result   passed  (before)  failed  skipped  minutes  last cold  last warm  budget")
    for stage, tally in [*tallies.items(), ("all", total)]:
        names = list(tallies) if stage == "all" else [stage]
        word = "" if stage == "all" else "FAILED" if tally.failed else "passed"
        minutes = [sum(table[name] for name in names) / 60 if all(name in table for name in names) else None
                   for table in (seconds, last["cold"], last["warm"])]
        budget = sum(stages.STAGES[name].minutes for name in names) if all(name in stages.STAGES for name in names) else None
        print(f"{stage:<13} {word:<7} {tally.passed:>7} {tally.before:>9} {len(tally.failed):>7} {len(tally.skipped):>8} "
              f"{campaign.cell(minutes[0], 8)} {campaign.cell(minutes[1], 10)} {campaign.cell(minutes[2], 10)} {campaign.cell(budget, 7)}")


def print_list(title: str, names: list[str]) -> None:
    if not names:
        return
    print(f"\n{title}:")
    for name in names[:LISTED_MAX]:
        print(f"  {name}")
    if len(names) > LISTED_MAX:
        print(f"  and {len(names) - LISTED_MAX} more")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--receipt", choices=("cold", "warm"), help="write the seconds of the stages to the receipt")
    arguments = parser.parse_args()
    tallies, seconds = {}, {}
    for line in (arguments.results / "stages").read_text(encoding="utf-8").splitlines():
        stage, status, took = line.split()
        tallies[stage] = stage_tally(arguments.results, stage, int(status))
        seconds[stage] = int(took)
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    print_list("skipped", total.skipped)
    for name, end in total.ends:
        print(f"\nthe end of {name}:\n{end}")
    print_list("failed", total.failed)
    print_minutes(tallies, seconds)
    if arguments.receipt and not total.failed:
        write_receipt(arguments.receipt, seconds)
    print(f"\n{total.passed} passed, {len(total.failed)} failed, {len(total.skipped)} skipped", flush=True)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
