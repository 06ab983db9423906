"""The reference of the package: one page, without warnings, where every public name is described."""

from __future__ import annotations

import re
import warnings

import api_reference
import nearfield


def test_every_public_name_is_described():
    missing = [name for module in api_reference.modules().values() for name in api_reference.undocumented(module)]
    assert missing == []


def test_the_page_has_every_public_name_once():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = api_reference.page()
    anchors = re.findall(r'id="([^"]+)"', page)
    assert len(anchors) == len(set(anchors))
    wanted = {"NearfieldVectorStore.similarity_search", "make_server", "Embedder.documents", *nearfield.__all__}
    for kind in (nearfield.Client, nearfield.AsyncClient, nearfield.Collection, nearfield.AsyncCollection):
        wanted |= {f"{kind.__name__}.{name}" for name in dir(kind) if not name.startswith("_")}
    assert wanted - set(anchors) == set()
    assert "Returns the k best rows for each query" in page


PLANTED = '''
from dataclasses import dataclass

def f():
    """Described."""

def g():
    pass

class C:
    """Described."""

    def method(self):
        pass

@dataclass
class Record:
    """named: described here."""

    named: int
    noted: int  # described on its line
    bare: int
'''


def test_a_name_without_a_description_is_found(tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(api_reference, "MODULES", ("planted",))
    monkeypatch.setattr(api_reference, "PACKAGE", "planted")
    (module,) = api_reference.modules().values()
    assert api_reference.undocumented(module) == ["planted.g", "planted.C.method", "planted.Record.bare"]
