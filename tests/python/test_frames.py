"""Arrow tables, and frames and columns of pandas and polars: nothing is dropped, gaps are rows without
a value, and errors name the row of the data."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import nearfield
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

UTC = dt.timezone.utc
DIM = 2
ROWS, BAD = 20_000, 15_001  # the bad row is in a later batch, and in a later block
BIT = pa.list_(pa.float32())


def table(**columns: Any) -> pa.Table:
    vectors = pa.array([[1.0, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2))
    return pa.table({"id": pa.array(["a", "b", "c"]), "vector": vectors, **columns})


VIEWS = {
    "word": (pa.array(["x", None, "ü"], pa.string_view()), "keyword", ["x", None, "ü"]),
    "tags": (pa.array([["x", "y"], None, []], pa.list_(pa.string_view())), "keyword[]", [["x", "y"], None, []]),
    "list_view": (pa.array([["x"], None, []], pa.list_view(pa.string())), "keyword[]", [["x"], None, []]),
    "large_view": (pa.array([[1, 2], None, []], pa.large_list_view(pa.int64())), "int64[]", [[1, 2], None, []]),
    "kind": (pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int8()), pa.array(["x", "y"], pa.string_view())),
             "keyword", ["x", None, "y"]),
}


@pytest.mark.parametrize("column", VIEWS)
def test_columns_of_views_were_dropped(create, column):
    """create_collection(like=) left out every text column of a frame of polars without a word."""
    array, kind, values = VIEWS[column]
    for part in (array, pa.chunked_array([array.slice(0, 1), array.slice(1)])):
        data = table(**{column: part})
        docs = create(None, like=data)
        assert {each.name: each.text for each in docs.info().attributes} == {column: kind}
        docs.upload(data)
        assert docs.fetch(["a", "b", "c"], attributes="*").attributes == {column: values}
    docs = create(attributes={column: kind}, id_type="string")
    docs.upload(np.ones((3, 2)), ids=["a", "b", "c"], attributes={column: array})
    assert docs.fetch(["a", "b", "c"], attributes="*").attributes == {column: values}


def test_ids_vectors_and_payloads_may_be_views(create):
    data = pa.table({
        "id": pa.array(["a", "b"], pa.string_view()), "vector": pa.array([[1, 2], [3, 4]], pa.list_view(pa.float64())),
        "payload": pa.array([b"\xff", None], pa.binary_view())})
    docs = create(None, like=data)
    docs.upload(data)
    found = docs.fetch(["a", "b"])
    assert found.vectors.tolist() == [[1, 2], [3, 4]] and found.payloads == [b"\xff", b""]


def test_a_frame_of_polars_is_uploaded_like_one_of_pandas(create, tmp_path):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({
        "id": ["a", "b", "c"], "vector": [[1.0, 2], [3, 4], [5, 6]], "word": ["x", None, "y"], "year": [1, None, 3],
        "tags": [["x"], None, []], "made": [dt.datetime(2024, 5, 17, tzinfo=UTC), None, None],
        "kind": pl.Series(["k", None, "l"]).cast(pl.Categorical), "payload": ["one", None, "three"]})
    frame.write_parquet(tmp_path / "rows.parquet")
    found = []
    for data in (frame, frame.to_pandas(), tmp_path / "rows.parquet", frame.to_arrow(), iter([frame[:1], frame[1:]])):
        like = data if isinstance(data, (pl.DataFrame, pa.Table, Path)) else frame
        docs = create(None, like=like)
        docs.upload(data)
        rows = docs.fetch(["a", "b", "c"], attributes="*")
        found.append((docs.info().attributes, rows.attributes, rows.payloads, rows.vectors.tolist()))
    assert all(each == found[0] for each in found) and len(found[0][0]) == 5
    docs = create(id_type="string", attributes={"word": str, "kind": str, "tags": [str]})
    docs.upload(frame["vector"].to_numpy().tolist(), ids=frame["id"], payloads=frame["payload"],
                attributes={name: frame[name] for name in ("word", "kind", "tags")})
    rows = docs.fetch(["a", "b", "c"], attributes="*")
    assert rows.attributes == {name: found[0][1][name] for name in ("word", "kind", "tags")}
    assert rows.payloads == found[0][2]


@pytest.mark.parametrize("column", [
    pa.array([b"x", b"y", b"z"]), pa.nulls(3), pa.array([{"a": 1}] * 3), pa.array([dt.timedelta(1)] * 3)])
def test_a_column_that_no_attribute_can_hold_was_left_out_of_the_declaration(create, column):
    with pytest.raises(TypeError, match="column 'extra': .*; no attribute can hold it: leave it out, or declare"):
        create(None, like=table(extra=column))
    docs = create(None, like=table(extra=column), attributes={})
    docs.upload(table(extra=column), attributes=[])
    docs = create(None, like=table(payload=pa.array(["a", "b", "c"])))
    assert docs.info().attributes == ()


GAPS = {
    "Int64": (int, pd.Series([1, None, 2**63 - 1], dtype="Int64")),
    "float for int": (int, pd.Series([1.0, np.nan, 3.0])),
    "double": (float, pd.Series([1.5, np.nan, -np.inf])),
    "Float64": (float, pd.Series([1.5, None, 2], dtype="Float64")),
    "keyword": (str, pd.Series(["a", None, ""])),
    "object": (str, pd.Series(["a", None, ""], dtype=object)),
    "string": (str, pd.Series(["a", pd.NA, ""], dtype="string")),
    "category": (str, pd.Series(["a", None, "b"], dtype="category")),
    "boolean": (bool, pd.Series([True, None, False], dtype="boolean")),
    "object of bool": (bool, pd.Series([True, None, False], dtype=object)),
    "time": (dt.datetime, pd.Series(pd.to_datetime(["2024-05-17", None, "2024-05-18T09:30:00.25+02:00"], utc=True, format="ISO8601"))),
    "list": ([str], pd.Series([["x"], None, []], dtype=object)),
    "list of ints": ([int], pd.Series([[1], None, [2, 3]], dtype=object)),
}


@pytest.mark.parametrize("label", GAPS)
def test_a_gap_in_a_column_of_pandas_was_a_value_of_the_wrong_type(create, label):
    """Columns with gaps could be uploaded in a DataFrame, but not as arguments or records."""
    kind, column = GAPS[label]
    frame = pd.DataFrame({"id": [0, 1, 2], "vector": [[1.0, 1]] * 3, "x": column})
    found = {}
    for source, data, given in (
        ("frame", frame, {}), ("column", np.ones((3, 2)), {"attributes": {"x": column}}),
        ("records", frame.to_dict("records"), {}),
        ("batch", {"id": frame["id"], "vector": np.ones((3, 2)), "x": column}, {}),
    ):
        docs = create(attributes={"x": kind})
        docs.upload(data, **given)
        found[source] = docs.fetch([0, 1, 2], attributes="*").attributes["x"]
    assert all(each == found["frame"] for each in found.values()), found
    assert found["frame"][1] is None and None not in (found["frame"][0], found["frame"][2])


def test_gaps_in_payloads_of_pandas(create):
    payloads = pd.Series(["a", None, np.nan], dtype=object)
    docs = create()
    docs.upload(np.ones((3, 2)), payloads=payloads)
    records = pd.DataFrame({"id": [7, 8, 9], "vector": [[1.0, 1]] * 3, "payload": payloads}).to_dict("records")
    docs.upload(records)
    assert docs.fetch([0, 1, 2]).payloads == docs.fetch([7, 8, 9]).payloads == [b"a", b"", b""]


def test_a_record_lost_the_nanoseconds_of_its_time(create):
    row = {"id": 1, "vector": [1, 2], "x": pd.Timestamp("2024-05-17T00:00:00.000000001Z")}
    with pytest.raises(ValueError, match=r"row 0 \(id 1\): attributes\['x'\]: .* parts of a microsecond"):
        create(attributes={"x": dt.datetime}).upload([row])


def vectors_with(value: Any) -> pa.Table:
    column: list[Any] = [[1.0, 2.0]] * ROWS
    column[BAD] = value
    return pa.table({"id": pa.array(range(ROWS), pa.uint64()), "vector": pa.array(column, BIT)})


def with_bad(good: Any, bad: Any) -> list[Any]:
    return [good] * BAD + [bad] + [good] * (ROWS - BAD - 1)


ONES = np.ones((ROWS, DIM), np.float32)
IDS = [str(i) for i in range(ROWS)]
ID = f'row {BAD} \\(id "?{BAD}"?\\): '
TIMES = pd.Series(pd.to_datetime(with_bad("2024-05-17", "2024-05-17T00:00:00.0000001"), utc=True, format="ISO8601"))
ERRORS: dict[str, tuple[dict[str, Any], Any, dict[str, Any], str]] = {
    "no vector": ({}, vectors_with(None), {}, f"{ID}column 'vector': no vector"),
    "a null in a vector": ({}, vectors_with([1.0, None]), {}, f"{ID}column 'vector': a vector holds a null"),
    "another size": ({}, vectors_with([1.0]), {}, f"{ID}column 'vector': a vector of 1 numbers, but the collection has 2"),
    "reader": ({}, lambda: vectors_with(None).to_reader(1000), {}, f"{ID}column 'vector': no vector"),
    "batches": ({}, vectors_with(None).to_batches(1000), {}, f"{ID}column 'vector': no vector"),
    "no id": ({}, vectors_with([1.0, 2]).set_column(0, "id", pa.array(with_bad(1, None), pa.uint64())), {},
              f"row {BAD}: column 'id': no id"),
    "a time": ({"x": dt.datetime}, vectors_with([1.0, 2]).append_column("x", pa.Array.from_pandas(TIMES)), {}, f"{ID}attributes"),
    "a long id": ({}, ONES, {"ids": [*IDS[:BAD], "x" * 600, *IDS[BAD + 1:]]}, f"row {BAD}: id: 600 bytes, must be at most 512"),
    "a number as id": ({}, ONES, {"ids": [*IDS[:BAD], 7, *IDS[BAD + 1:]]}, f"row {BAD}: id: 7 after texts"),
    "an empty id": ({}, ONES, {"ids": [*IDS[:BAD], "", *IDS[BAD + 1:]]}, f"row {BAD}: id: an empty text"),
    "half a character": ({}, ONES, {"ids": [*IDS[:BAD], "\ud83d", *IDS[BAD + 1:]]}, f"row {BAD}: id: '.ud83d' has half of a surr"),
    "NaN": ({"x": float}, ONES, {"attributes": {"x": np.array(with_bad(1.0, np.nan))}}, f"{ID}attributes\\['x'\\]: NaN"),
    "NaN of Arrow": ({"x": float}, ONES, {"attributes": {"x": pa.array(with_bad(1.0, np.nan))}}, f"{ID}attributes\\['x'\\]: NaN"),
    "a long payload": ({}, ONES, {"payloads": with_bad("x", "y" * 70_000)}, f"{ID}payload: 70000 bytes, must be at most 65536"),
    "a payload": ({}, ONES, {"payloads": with_bad("x", {"a": object()})}, f"{ID}payload: <object .* has no form in JSON"),
    "a long keyword": ({"x": str}, ONES, {"attributes": {"x": with_bad("x", "y" * 70_000)}}, f"{ID}attributes\\['x'\\]: 70000 bytes"),
    "a wrong type": ({"x": str}, ONES, {"attributes": {"x": with_bad("x", 7)}}, f"{ID}attributes\\['x'\\]: 7; the attribute"),
    "a vector in a list": ({}, with_bad([1, 2], [1]), {}, f"row {BAD}: a vector of 1 numbers; the collection needs 2"),
    "a text in a list": ({}, with_bad([1, 2], ["a", 1]), {}, f"row {BAD}: vector: \\['a', 1\\]; a list of numbers"),
    "None in a list": ({}, with_bad([1, 2], None), {}, f"row {BAD}: vector: None; a list of numbers"),
    "a row": ({}, [{"id": i, "vector": [1, 2] if i != BAD else "text"} for i in range(ROWS)], {}, f"{ID}vector: 'text'"),
    "a member": ({}, [{"id": i, "vector": [1, 2], **({"yaer": 1} if i == BAD else {})} for i in range(ROWS)], {},
                 f"row {BAD}: attributes\\['yaer'\\]: the collection"),
    "a payload of a row": ({}, [{"id": i, "vector": [1, 2], "payload": "\ud83d" if i == BAD else ""} for i in range(ROWS)], {},
                           f"{ID}payload: .*surrogates not allowed"),
    "columns": ({"x": int}, lambda: ({"id": np.arange(at, at + 5000), "vector": ONES[:5000], "x": with_bad(1, 1.5)[at:at + 5000]}
                             for at in range(0, ROWS, 5000)), {}, f"{ID}attributes\\['x'\\]: 1.5"),
}


@pytest.mark.parametrize("label", ERRORS)
def test_an_error_named_the_place_in_a_batch_as_the_row(create, label):
    """Row 15,001 was called row 6809 or row 12, not named at all, or another row was blamed."""
    declared, data, given, words = ERRORS[label]
    texts = "ids" in given
    docs = create(id_type="string" if texts else "uint64", attributes=declared)
    with pytest.raises((TypeError, ValueError), match=words):
        docs.upload(data() if callable(data) else data, **given)
    assert docs.count().rows_count == 0


def test_an_error_about_a_row_of_parquet_names_the_file(create, tmp_path):
    pq.write_table(vectors_with(None), tmp_path / "rows.parquet", row_group_size=7000)
    with pytest.raises(ValueError, match=f"rows.parquet: {ID}column 'vector': no vector"):
        create().upload(tmp_path / "rows.parquet")


@pytest.mark.parametrize("file", ["rows.parquet", "rows.jsonl", "rows.jsonl.gz", "rows.npy"])
def test_a_declaration_is_inferred_from_a_path(create, tmp_path, file):
    path: Path = tmp_path / file
    first = create(attributes={"year": int, "price": float, "tags": [str], "good": bool}, id_type="string")
    first.upload([
        {"id": "a", "vector": [1, 2]}, {"id": "b", "vector": [1, 2], "price": 1.5, "tags": []},
        {"id": "c", "vector": [1, 2], "year": 2020, "price": 2.0, "tags": ["x"], "good": False}])
    if file == "rows.npy":
        np.save(path, np.ones((3, 2), np.float16))
        info = create(None, like=str(path)).info()
        assert (info.dim, info.dtype, info.id_type, info.attributes) == (2, "float16", "uint64", ())
        return
    first.export(path)
    info = create(None, like=path).info()
    assert (info.dim, info.dtype, info.id_type) == (2, "float32", "string")
    assert sorted(info.attributes, key=str) == sorted(first.info().attributes, key=str)
    docs = create(None, like=str(path))
    docs.upload(path)
    assert docs.fetch(["c"], attributes="*").attributes["year"] == [2020]


@pytest.mark.parametrize(("text", "words"), [
    ("", "rows.jsonl: no rows, which show no dimension"),
    ('{"vector": [1, 2], "x": null}', "rows.jsonl: 'x': no row has a value"),
    ('{"vector": [1, 2], "x": 1}\n{"vector": [1, 2], "x": "a"}', "rows.jsonl: 'x': values of int64 and of keyword"),
    ('{"vector": [1, 2], "x": {"a": 1}}', "rows.jsonl: 'x': .* no attribute can hold it"),
])
def test_a_file_that_shows_no_declaration_is_refused(create, tmp_path, text, words):
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises((TypeError, ValueError), match=words):
        create(None, like=tmp_path / "rows.jsonl")


def test_a_declaration_is_inferred_from_rows(create):
    rows = [{"id": 1, "vector": [1, 2], "x": None, "payload": {}}, {"id": 2, "vector": [1, 2], "x": [dt.datetime(2024, 1, 1, tzinfo=UTC)]}]
    docs = create(None, like=rows)
    docs.upload(rows)
    assert docs.fetch([2], attributes="*").attributes == {"x": [[dt.datetime(2024, 1, 1, tzinfo=UTC)]]}
    assert json.loads(docs.fetch([1]).payloads[0]) == {} and isinstance(docs.info(), nearfield.CollectionInfo)


def test_like_takes_a_list_of_vectors_and_names_what_it_does_not_take(create):
    """The errors were those of pyarrow."""
    pl = pytest.importorskip("polars")
    assert create(None, like=[[1, 2, 3], [4, 5, 6]]).info().dim == 3
    with pytest.raises(ValueError, match="no rows, which show no dimension: give dim"):
        create(None, like=[])
    for data in (iter([[1, 2]]), pd.Series([[1, 2]]), pl.Series([[1, 2]])):
        with pytest.raises(TypeError, match=f"like: {type(data).__name__}; an array, a table, a list or a file"):
            create(None, like=data)
    for data in (pd.Series([[1, 2]]), pl.Series([[1, 2]])):
        with pytest.raises(TypeError, match="data: an iterable of .*; give a NumPy array"):
            create().upload(data)


def test_an_error_about_a_row_without_an_id_hid_the_error(create):
    data = pa.table({"id": pa.array([None, 2], pa.uint64()), "vector": [[1, 2], [3, 4]], "payload": ["x" * 70_000, ""]})
    with pytest.raises(nearfield.InvalidArgument, match=r"row 0 \(id null\): payload: 70000 bytes"):
        create().upload(data)
    with pytest.raises(TypeError, match="vectors: complex128"):
        create().upload({"id": [], "vector": np.zeros((0, 2), complex)})
