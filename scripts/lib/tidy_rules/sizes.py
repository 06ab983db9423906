"""Checks the number of lines of files, functions and kernels."""

from __future__ import annotations

import ast
import dataclasses
import re

from tidy_rules.tree import Finding, Tree

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
KERNEL_LINES_MAX = 120
# Files that are read as code; generated tables and captured data are not.
LINE_COUNTED_SUFFIXES = (".h", ".cc", ".cu", ".cuh", ".py", ".cmake", ".proto", ".sh", "CMakeLists.txt")

TOKENS = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"(?P<delimiter>[^()\s\\]{0,16})\(.*?\)(?P=delimiter)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.MULTILINE)
NOT_A_FUNCTION = re.compile(r"^\s*(?:namespace|class|struct|union|enum|extern\s+\"|typedef|using)\b|=\s*$")
CONTROL = re.compile(r"^\s*(?:if|for|while|switch|do|else|try|catch)\b")
TEMPLATE = re.compile(r"^\s*(?:template\s*<[^{;]*?>\s*)+", re.DOTALL)
LAUNCH_BOUNDS = re.compile(r"__launch_bounds__\([^)]*\)")
NAME = re.compile(r"([~\w:]+|operator\s*\S+)\s*\(")


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    begin: int
    lines: int
    is_kernel: bool


def blank(match: re.Match[str]) -> str:
    """Returns spaces in the same shape, so that line numbers stay."""
    return re.sub(r"[^\n]", " ", match.group(0))


def opens_function(statement: str) -> bool:
    """Returns True if the brace after this text, outside any function, opens a function's body."""
    head = TEMPLATE.sub("", statement)
    if "(" not in head or NOT_A_FUNCTION.search(head) or CONTROL.search(head):
        return False
    # In a constructor's initializers, `member_{...}` opens no body: its brace directly follows a
    # name.
    in_initializers = re.search(r"\)\s*(?:noexcept\s*)?:[^:]", head) is not None
    return not (in_initializers and re.search(r"\w$", head))


def find_functions(text: str) -> list[Function]:
    """Returns the function definitions at namespace or class scope, measured from the line of
    the signature to the closing brace."""
    text = PREPROCESSOR.sub(blank, TOKENS.sub(blank, text))
    functions: list[Function] = []
    scopes: list[str] = []
    statement_begin = 0
    for match in re.finditer(r"[{};]|\b(?:public|private|protected)\s*:", text):
        at, token = match.start(), match.group(0)
        inside = "function" in scopes
        if token == "{":
            statement = text[statement_begin:at]
            if not inside and opens_function(statement):
                scopes.append("function")
                body_of = statement_begin + len(statement) - len(statement.lstrip())
            else:
                initialiser = not inside and "(" in TEMPLATE.sub("", statement) and not CONTROL.search(statement)
                scopes.append("initialiser" if initialiser else "scope")
                if not inside and not initialiser:
                    statement_begin = match.end()
        elif token == "}":
            closed = scopes.pop() if scopes else "scope"
            if closed == "function" and "function" not in scopes:
                functions.append(measure(text, body_of, at))
            if "function" not in scopes and closed != "initialiser":
                statement_begin = match.end()
        elif not inside and "initialiser" not in scopes:
            statement_begin = match.end()
    return functions


def measure(text: str, begin: int, end: int) -> Function:
    signature = text[begin : text.index("{", begin)]
    name = NAME.search(LAUNCH_BOUNDS.sub(" ", TEMPLATE.sub("", signature)))
    first = text.count("\n", 0, begin) + 1
    return Function(name.group(1) if name else "?", first, text.count("\n", begin, end) + 1, "__global__" in signature)


def cxx_findings(tree: Tree, path: str) -> list[Finding]:
    findings = []
    for function in find_functions(tree.text(path)):
        limit = KERNEL_LINES_MAX if function.is_kernel else FUNCTION_LINES_MAX
        if function.lines > limit:
            kind = "kernel" if function.is_kernel else "function"
            findings.append(
                Finding(
                    path, function.begin, "sizes", f"{kind} {function.name}: {function.lines} lines; at most {limit}"
                )
            )
    return findings


def python_findings(tree: Tree, path: str) -> list[Finding]:
    findings = []
    for node in ast.walk(ast.parse(tree.text(path), filename=path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                findings.append(
                    Finding(
                        path, node.lineno, "sizes", f"function {node.name}: {lines} lines; at most {FUNCTION_LINES_MAX}"
                    )
                )
    return findings


def check(tree: Tree) -> list[Finding]:
    findings = []
    for path in tree.code:
        if path.endswith(LINE_COUNTED_SUFFIXES) or tree.shebang(path):
            lines = len(tree.lines(path))
            if lines > FILE_LINES_MAX:
                findings.append(Finding(path, 1, "sizes", f"{lines} lines; at most {FILE_LINES_MAX}"))
    for path in tree.cxx:
        findings += cxx_findings(tree, path)
    for path in tree.code:
        if path.endswith(".py") or "python" in tree.shebang(path):
            findings += python_findings(tree, path)
    return findings
