"""Words in, words out: add_texts() and search(text=), for the blocking and the asynchronous client."""

from __future__ import annotations

import uuid

import checksum_model
import nearfield
import numpy as np
import pytest
from nearfield import Embedder, EmbedError, F

TEXTS = ["one", "two", "a \u00fc \U0001f600", ""]


class Counting(Embedder):
    """The checksum model; `calls` counts its texts."""

    def __init__(self, name: str = "checksum") -> None:
        self.calls = 0
        super().__init__(self.made, name=name)

    def made(self, texts: list[str]) -> np.ndarray:
        self.calls += len(texts)
        return checksum_model.model(texts)


@pytest.fixture
def docs(client, name):
    yield client.create_collection(name, metric="cosine", embed=checksum_model.model, attributes={"year": int})
    client.drop_collection(name)


def test_a_collection_for_a_model_has_its_dimension_and_name(client, docs):
    info = docs.info()
    assert (info.dim, info.embedding_model) == (8, "checksum")
    same = client.create_collection(docs.name, metric="cosine", embed=checksum_model.model, attributes={"year": int}, if_missing=True)
    assert same.name == docs.name
    with pytest.raises(nearfield.AlreadyExists, match="embedding_model checksum, not other"):
        client.create_collection(docs.name, metric="cosine", embed=checksum_model.other, attributes={"year": int}, if_missing=True)
    for options, words in (({"dim": 9}, "dim: 9; the model of embed= has 8"),
                           ({"embedding_model": "x"}, "embedding_model: 'x'; the model of embed= has 'checksum'")):
        with pytest.raises(TypeError, match=words):
            client.create_collection("no", metric="dot", embed=checksum_model.model, **options)


def test_texts_come_back_as_they_were(docs):
    added = docs.add_texts(TEXTS, embed=checksum_model.model, ids=[7, 8, 9, 10], attributes={"year": [1, 2, None, 4]},
                           payloads=[None, {"page": 3}, {}, None])
    assert list(added.ids) == [7, 8, 9, 10] and added.rows_replaced == 0
    rows = docs.fetch([7, 8, 9, 10], attributes="*")
    assert rows.vectors.tobytes() == checksum_model.model(TEXTS).tobytes() and rows.epoch == added.epoch
    assert rows.attributes["year"] == [1, 2, None, 4]
    found = docs.search(text="two", embed=checksum_model.model, k=4)
    assert {hit.id: hit.text for hit in found} == dict(zip(added.ids, TEXTS, strict=True))
    assert found.hits.ids[0] == 8 and next(iter(found)).json() == {"text": "two", "page": 3}
    again = docs.add_texts(["deux"], embed=checksum_model.model, ids=[8], mode="upsert")
    assert again.rows_replaced == 1 and docs.fetch([8]).payloads == ['{"text":"deux"}'.encode()]


def test_a_text_finds_what_its_vector_finds(docs):
    docs.add_texts(TEXTS, embed=checksum_model.model, attributes={"year": [1, 2, 3, 4]})
    for options in ({"k": 2}, {"k": 3, "filter": F.year >= 2}, {"payload": False, "attributes": "*"}):
        for query in ("two", ["two", "three"]):
            by_text = docs.search(text=query, embed=checksum_model.model, **options)
            vectors = checksum_model.model([query] if isinstance(query, str) else query)
            by_vector = docs.search(vectors if len(vectors) > 1 else vectors[0], **{"payload": True, **options})
            assert [list(each) for each in by_text.queries] == [list(each) for each in by_vector.queries]
    assert docs.explain(text="two", embed=checksum_model.model)


@pytest.mark.parametrize(("id_type", "kind"), [("string", uuid.UUID), ("uint64", int)])
def test_new_ids_are_random(create, id_type, kind):
    docs = create(8, id_type=id_type)
    ids = [each for _ in range(2) for each in docs.add_texts(TEXTS, embed=checksum_model.model).ids]
    assert len(set(ids)) == 8 == docs.count().rows_count
    assert all(kind(each) for each in ids) and (id_type == "string" or max(ids) < 2**63)


def test_another_model_is_refused_before_it_is_called(docs):
    other = Counting("other/model")
    for call in (lambda: docs.add_texts(["a"], embed=other), lambda: docs.search(text="a", embed=other)):
        with pytest.raises(EmbedError, match="has vectors of the model 'checksum', not of 'other/model'"):
            call()
    assert other.calls == 0 and docs.count().rows_count == 0
    with pytest.raises(EmbedError, match="a function without a name"):
        docs.search(text="a", embed=lambda texts: checksum_model.model(texts))
    with pytest.raises(EmbedError, match="makes vectors of 10 numbers; the collection .* has dim 8"):
        docs.add_texts(["a"], embed=Embedder(checksum_model.wide, name="checksum"))


@pytest.mark.parametrize(("options", "kind", "words"), [
    ({"texts": "one"}, TypeError, "texts: 'one' is one value; give a list"),
    ({"texts": ["a", 7]}, TypeError, r"texts\[1\]: 7, must be a text"),
    ({"texts": ["\ud800"]}, ValueError, "row 0 .*payload: .*surrogate"),
    ({"texts": ["a" * 70_000]}, nearfield.InvalidArgument, "payload: 700.. bytes, must be at most 65536"),
    ({"ids": [1]}, ValueError, "ids: 1 for 2 vectors"),
    ({"ids": ["a", "b"]}, TypeError, "id: texts; the collection"),
    ({"attributes": {"yaer": [1, 2]}}, ValueError, "did you mean year"),
    ({"attributes": {"year": [1, "x"]}}, TypeError, "row 1 .*year"),
    ({"payloads": [{}]}, ValueError, "payloads: 1 for 2 texts"),
    ({"payloads": [{"text": "x"}, None]}, TypeError, r"payloads\[0\]: .* a dict without 'text'"),
    ({"payloads": ["x", None]}, TypeError, r"payloads\[0\]: 'x'; a dict"),
])
def test_rows_that_cannot_be_stored_are_refused_before_the_model_is_called(docs, options, kind, words):
    embedder = Counting()
    with pytest.raises(kind, match=words):
        docs.add_texts(**{"texts": ["a", "b"], **options}, embed=embedder)
    assert embedder.calls == 0 and docs.count().rows_count == 0


def test_a_search_by_text_needs_a_model_and_no_vector(docs, monkeypatch):
    monkeypatch.delenv("NEARFIELD_EMBED", raising=False)
    for options, words in (({"text": "a"}, "embed: no model; give a function"),
                           ({"embed": checksum_model.model}, "embed: it makes the vector of text="),
                           ({"text": "a", "vector": [1.0] * 8}, "give one of"), ({"text": "a", "id": 1}, "give one of"),
                           ({"text": 7, "embed": checksum_model.model}, "text: 7; give a list")):
        with pytest.raises(TypeError, match=words):
            docs.search(**options)
    monkeypatch.setenv("NEARFIELD_EMBED", "checksum_model:model")
    docs.add_texts(["a", "b"])
    assert [hit.text for hit in docs.search(text="b", k=1)] == ["b"]


def test_a_model_is_not_loaded_again_for_each_call(docs, monkeypatch):
    loaded = []
    monkeypatch.setattr("nearfield._embed_models.load_function", lambda *names: loaded.append(names) or checksum_model.model)
    for _ in range(3):
        docs.search(text="a", embed=f"checksum_model:{docs.name}")
    assert loaded == [("checksum_model", docs.name)]
