"""Writes the reference of the Python package as one HTML page, with pdoc. Called by
scripts/api_reference, in an environment that has the package and its optional parts.

Exits with 1 if a public name has no description, or if pdoc has a warning.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path

import pdoc.doc
import pdoc.render
from markupsafe import Markup, escape

PACKAGE = "nearfield"
MODULES = ("nearfield", "nearfield.langchain", "nearfield.llamaindex", "nearfield.mcp", "nearfield.text")
DEFAULT = Path(__file__).resolve().parents[2] / "build" / "api_reference.html"
MAIN = re.compile(r'<main class="pdoc">(.*)</main>', re.DOTALL)
ANCHOR = re.compile(r'id="([^"]+)"')
LINK = re.compile(r'(id="|href="#)')
# The fields of a record may be those of a message, which its docstring names.
MESSAGE = re.compile(r"\b\w+\.proto\b")


def modules() -> dict[str, pdoc.doc.Module]:
    """Loads the modules, and limits them to their interface."""
    found = {name: pdoc.doc.Module.from_name(name) for name in MODULES}
    for module in found.values():
        members = {each.name: each for each in public_members(module)}
        module.__dict__["members"] = members
        for member in members.values():
            if isinstance(member, pdoc.doc.Class):
                member.__dict__["own_members"] = list(class_members(member, members.keys()))
            elif member.kind == "variable" and not member.docstring:
                member.__dict__["docstring"] = inspect.getdoc(type(getattr(module.obj, member.name))) or ""
    return found


def public_members(module: pdoc.doc.Module) -> list[pdoc.doc.Doc]:
    """Returns the members of __all__; without one, the classes and functions that a module defines,
    except the program, which the module itself describes."""
    names = getattr(module.obj, "__all__", None)
    members = module.members.values()
    if names is not None:
        return [each for each in members if each.name in names]
    return [each for each in members if not each.name.startswith("_") and each.kind in ("class", "function")
            and each.taken_from[0] == module.modulename and each.name != "main"]


def class_members(cls: pdoc.doc.Class, public: Collection[str]) -> Iterator[pdoc.doc.Doc]:
    """Yields the public members of a class, with those of bases that are private. The members of a
    public base are described there."""
    for each in cls.members.values():
        module, name = each.taken_from
        owner = name.partition(".")[0]
        inherited = owner in public and owner != cls.name
        if module.partition(".")[0] == PACKAGE and not inherited and (
                not each.name.startswith("_") or each.name == "__init__"):
            yield each


def undocumented(module: pdoc.doc.Module) -> list[str]:
    """Returns the public names without a description. A field may be described in the docstring of
    its class, by a comment on its line, or by the message that the docstring names."""
    found = []
    for member in module.members.values():
        if not member.docstring.strip():
            found.append(member.fullname)
        if not isinstance(member, pdoc.doc.Class):
            continue
        for each in member.own_members:
            if each.name == "__init__":
                continue  # described by its class
            if not each.docstring.strip() and not (each.kind == "variable" and is_described(member, each.name)):
                found.append(f"{member.fullname}.{each.name}")
    return found


def is_described(cls: pdoc.doc.Class, field: str) -> bool:
    """Returns True if the docstring of a class, or of a base, or a comment describes a field."""
    for base in cls.obj.__mro__:
        text = base.__doc__ or ""
        source = pdoc.doc.Class(base.__module__, base.__qualname__, base, ("", "")).source
        if MESSAGE.search(text) or re.search(rf"(^|[ ,`]){field}\b", text, re.MULTILINE):
            return True
        if re.search(rf"^\s+{field}: [^#\n]*  # \w", source, re.MULTILINE):
            return True
    return False


def verbatim(text: str) -> Markup:
    """Renders a docstring as it was written: its columns carry meaning."""
    return Markup('<pre style="white-space: pre-wrap; font: inherit">{}</pre>').format(escape(text))


def page() -> str:
    """Returns the page: that of the package, followed by the contents of the optional modules."""
    found = modules()
    pdoc.render.configure(search=False, show_source=False)
    pdoc.render.env.filters["to_markdown"] = str
    pdoc.render.env.filters["to_html"] = verbatim
    pages = [pdoc.render.html_module(module, found) for module in found.values()]
    mains: list[str] = []
    anchors: set[str] = set()
    for name, each in zip(found, pages, strict=True):
        contents = MAIN.search(each)
        assert contents
        own = ANCHOR.findall(contents[1])
        # Classes of two modules may have the same name.
        mains.append(contents[1] if anchors.isdisjoint(own) else LINK.sub(rf"\g<0>{name}.", contents[1]))
        anchors.update(own)
    return MAIN.sub(lambda _: f'<main class="pdoc">{"<hr>".join(mains)}</main>', pages[0])


def main() -> int:
    parser = argparse.ArgumentParser("api_reference", description=__doc__)
    parser.add_argument("out", nargs="?", type=Path, default=DEFAULT, help="file to write [build/api_reference.html]")
    out = parser.parse_args().out
    missing = [name for module in modules().values() for name in undocumented(module)]
    for name in missing:
        print(f"{name}: no description", file=sys.stderr)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = page()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    print(f"{out}: {len(text):,} characters")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
