"""Nothing that a caller gives is dropped: arguments, columns and settings that a call does not know
are refused, and nothing is stored."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import nearfield
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

VECTORS = pa.array([[1.0, 0], [0, 2]], pa.list_(pa.float32(), 2))
ONES = np.ones((2, 2), np.float32)


def table(**more: Any) -> pa.Table:
    return pa.table({"id": pa.array([7, 8], pa.uint64()), "vector": VECTORS, **more})


@pytest.fixture
def docs(client, name):
    return client.create_collection(name, 2, metric="dot", attributes={"year": int})


async def exhaust(result: Any) -> None:
    if inspect.isasyncgen(result):
        await anext(result)
    elif inspect.isawaitable(result):
        await result
    elif inspect.isgenerator(result):
        next(result)


@pytest.mark.parametrize("kind", [
    nearfield.Client, nearfield.AsyncClient, nearfield.Collection, nearfield.AsyncCollection])
def test_no_method_drops_an_argument_that_it_does_not_have(kind):
    async def call_all() -> int:
        client: Any = nearfield.AsyncClient if "Async" in kind.__name__ else nearfield.connect
        client = client("127.0.0.1:1")
        made = client if "Client" in kind.__name__ else client.collection("docs")
        names = [each for each in dir(made) if not each.startswith("_") and callable(getattr(made, each))]
        for name in names:
            method = getattr(made, name)
            needed = [each for each in inspect.signature(method).parameters.values() if each.default is each.empty]
            given = {each.name: "x" for each in needed if each.kind is not each.VAR_KEYWORD}
            with pytest.raises(TypeError, match="filtre"):
                await exhaust(method(**given, filtre="year == 2024"))
        return len(names)

    assert asyncio.run(call_all()) >= 14


def test_columns_of_a_table_were_dropped(docs, tmp_path):
    """A misspelled attribute was not stored, and filters by it found nothing."""
    misspelled = table(yaer=[2020, 2021])
    pq.write_table(misspelled, tmp_path / "rows.parquet")
    late = [table(year=[1, 2]), misspelled.set_column(0, "id", pa.array([9, 10], pa.uint64()))]
    for data in (misspelled, misspelled.to_pandas(), tmp_path / "rows.parquet", misspelled.to_batches(), iter(late)):
        with pytest.raises(ValueError, match=r"column 'yaer': no id, vector, payload or attribute \(year:int64\)"):
            docs.upload(data)
    assert docs.count().rows_count == 0
    docs.upload(misspelled, payloads=["yaer"])
    docs.upload(misspelled, attributes=[], mode="replace")  # the caller's choice
    docs.upload(misspelled, attributes={"year": "yaer"}, mode="replace")
    assert docs.count("year >= 2020").rows_count == 2


def test_an_attribute_of_later_batches_was_dropped(docs):
    first = table().set_column(0, "id", pa.array([1, 2], pa.uint64()))
    docs.upload(iter([first, table(year=[2020, 2021])]))
    assert docs.fetch([1, 7, 8], attributes=["year"]).attributes == {"year": [None, 2020, 2021]}


def test_the_payloads_of_an_exported_file_were_dropped(client, docs, name, tmp_path):
    docs.upload(ONES, payloads=[b"one", None], attributes={"year": [2020, None]})
    docs.export(tmp_path / "rows.parquet")
    other = client.create_collection(f"{name}-2", 2, metric="dot", attributes={"year": int})
    other.upload(tmp_path / "rows.parquet")
    assert other.fetch([0, 1]).payloads == docs.fetch([0, 1]).payloads == [b"one", b""]


def test_the_first_of_two_members_was_dropped(docs, tmp_path):
    """A payload is stored as it is written, as the command does."""
    (tmp_path / "rows.jsonl").write_text('{"id": 6, "vector": [1, 0]}\n{"id": 7, "vector": [1, 0], "year": 1, "year": 2}')
    with pytest.raises(ValueError, match="rows.jsonl:2: member 'year' twice"):
        docs.upload(tmp_path / "rows.jsonl")
    assert docs.count().rows_count == 0
    (tmp_path / "rows.jsonl").write_text('{"id": 7, "vector": [1, 0], "payload": {"year": 1, "year": 2}}')
    docs.upload(tmp_path / "rows.jsonl")
    assert docs.fetch([7]).payloads == [b'{"year":1,"year":2}']


@pytest.mark.parametrize(("data", "given", "words"), [
    (table(), {"ids": [1, 2]}, "ids: list; with a table, the name of its column"),
    (table(), {"vectors": ONES}, "vectors: ndarray; with a table"),
    (ONES, {"vectors": "vector"}, "vectors: names a column or a dataset"),
    ([], {"ids": [1, 2]}, "ids: 2 for 0 vectors"),
])
def test_arguments_that_do_not_fit_the_data_were_dropped(docs, data, given, words):
    docs.upload(ONES)
    with pytest.raises((TypeError, ValueError), match=words):
        docs.upload(data, **given, mode="replace")
    assert docs.count().rows_count == 2 and docs.fetch([0, 1]).missing.tolist() == []


@pytest.mark.parametrize(("given", "words"), [
    ({"dim": 2, "ids": ["a"]}, "ids, vectors: they describe like="),
    ({"dim": 2, "vectors": "embedding"}, "ids, vectors: they describe like="),
    ({"like": ONES, "vectors": "embedding"}, "vectors: names a column"),
    ({"like": table(), "ids": ["a", "b"]}, "ids: list; with a table"),
    ({"dim": 2, "attributes": ["year"]}, "attributes: 'year'; a dict of types"),
    ({"dim": 2, "attributes": [{"name": "year", "typ": "int64"}]}, "a dict of types, or a list of Attribute"),
    ({"dim": 2, "attributes": {"year": {"typ": "int64"}}}, "attributes\\['year'\\]: {'typ': 'int64'}; one of int64"),
])
def test_parts_of_a_declaration_were_dropped(client, name, given, words):
    with pytest.raises((TypeError, ValueError), match=words):
        client.create_collection(name, metric="dot", **given)
    with pytest.raises(nearfield.NotFound):
        client.get_collection(name)


def test_a_folder_was_replaced_by_a_setting(tmp_path):
    with pytest.raises(TypeError, match="data_dir: it is the first argument"):
        nearfield.open(tmp_path / "one", data_dir=str(tmp_path / "two"))
    with pytest.raises(nearfield.InvalidArgument, match="did you mean"):
        nearfield.open(tmp_path / "one", memory_byte="64MiB")
    assert list(tmp_path.iterdir()) == []


def test_the_home_folder_was_a_folder_named_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    nearfield.open("~/data", memory_bytes="64MiB").close()
    assert [each.name for each in tmp_path.iterdir()] == ["data"]
