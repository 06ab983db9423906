"""Checks shell scripts for strict mode, and with shellcheck."""

from __future__ import annotations

import re
import shutil

from tidy_rules.tree import Finding, Tree, run_tool

COMPLAINT = re.compile(r"^(.+?):(\d+):\d+: (?:error|warning|note|style): (.*)$", re.MULTILINE)


def check(tree: Tree) -> list[Finding]:
    scripts = [path for path in tree.files if path.endswith(".sh") or "bash" in tree.shebang(path)]
    findings = [
        Finding(path, 1, "shell", "no 'set -euo pipefail' (only files in scripts/lib may lack it)")
        for path in scripts
        if not path.startswith("scripts/lib/") and "set -euo pipefail" not in tree.text(path)
    ]
    if not scripts:
        return findings
    if shutil.which("shellcheck") is None:
        return findings + [Finding(scripts[0], 1, "shell", "shellcheck is not installed: run scripts/setup --test")]
    output = run_tool("shellcheck", "--format=gcc", "--external-sources", *scripts, cwd=tree.root).stdout
    return findings + [Finding(path, int(line), "shell", message) for path, line, message in COMPLAINT.findall(output)]
