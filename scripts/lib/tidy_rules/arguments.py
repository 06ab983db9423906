"""Checks that no function of the Python package drops arguments: `**_`, or `**options` that the
function never reads, turns a misspelled name into another call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tidy_rules.tree import Finding, Tree, allowed

# Python calls these itself, with arguments that it knows.
CALLED_BY_PYTHON = frozenset({"find_spec"})


def dropped(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.arg]:
    """Yields the parameters *NAME and **NAME that the body never reads."""
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    for parameter in (function.args.vararg, function.args.kwarg):
        if parameter is not None and parameter.arg not in read:
            yield parameter


def check(tree: Tree) -> list[Finding]:
    findings = []
    for path in tree.files:
        if not (path.startswith("client/python/") and path.endswith(".py")):
            continue
        lines = tree.lines(path)
        for node in ast.walk(ast.parse(tree.text(path), filename=path)):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if node.name in CALLED_BY_PYTHON or (node.name.startswith("__") and node.name.endswith("__")):
                continue
            findings += [
                Finding(path, each.lineno, "arguments", f"{node.name} drops the arguments in {each.arg}: refuse or use them")
                for each in dropped(node)
                if not allowed(lines[each.lineno - 1], "arguments")
            ]
    return findings
