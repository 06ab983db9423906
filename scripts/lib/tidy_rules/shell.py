"""Checks shell scripts for strict mode, and with shellcheck."""

from __future__ import annotations

import re
import shutil

from tidy_rules.tree import Finding, Tree, run_tool

COMPLAINT = re.compile(r"^(.+?):(\d+):\d+: (?:error|warning|note|style): (.*)$", re.MULTILINE)


def check(tree: Tree) -> list[Finding]:
    of_sh = [path for path in tree.files if tree.shebang(path) == "#!/bin/sh"]
    of_bash = [path for path in tree.files if path.endswith(".sh") or "bash" in tree.shebang(path)]
    findings = [
        Finding(path, 1, "shell", f"no '{mode}' (only files in scripts/lib may lack it)")
        for mode, paths in (("set -e", of_sh), ("set -euo pipefail", of_bash))
        for path in paths
        if not path.startswith("scripts/lib/") and mode not in tree.text(path)
    ]
    scripts = of_sh + of_bash
    if not scripts:
        return findings
    if shutil.which("shellcheck") is None:
        return findings + [Finding(scripts[0], 1, "shell", "shellcheck is not installed: run scripts/setup --test")]
    output = run_tool("shellcheck", "--format=gcc", "--external-sources", *scripts, cwd=tree.root).stdout
    return findings + [Finding(path, int(line), "shell", message) for path, line, message in COMPLAINT.findall(output)]
