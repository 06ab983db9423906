"""Exported files: each is what its name says, and an upload of it by the Python client or the command
makes an equal collection, whichever of the two has written it."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import math
from typing import Any

import nearfield
import numpy as np
import pyarrow.parquet as pq
import pytest

UTC = dt.timezone.utc
DECLARED = {"made": "timestamp", "price": float, "year": int, "good": bool, "word": str, "tags": [str], "times": ["timestamp"],
            "prices": [float]}
PAYLOADS = [
    b"", b"\xff\x00", b"text", "ü\u2028\n".encode(), b'{"a":1.10,"b":"\\u00fc"}', b'{ "a": 1 }', b'"quoted"', b"null", b"-0", b"1e999",
    b'{"$base64":"/wA="}', b'{"a":1,"a":2}', b"\xef\xbb\xbf{}", b"{}\n", b"NaN", b'"\\ud800"', b"[" * 5000]
FIRST = np.datetime64("-0290-01-01T00:00:00", "us")


def rows_of(id_type: str, dtype: str, rng: np.random.Generator) -> list[dict[str, Any]]:
    numbers = [0, 7, 2**53 + 1, 2**63, 2**64 - 1, *range(100, 200)]
    texts = ["a\nb", '"', "\\", "ü", "7", " ", *(f"row-{i}" for i in range(100))]
    doubles = [math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 2.0**53]
    times: list[Any] = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), dt.datetime(1, 1, 1, tzinfo=UTC), FIRST,
                        dt.datetime(9999, 12, 31, tzinfo=UTC), None]
    vectors = rng.standard_normal((105, 3), dtype=np.float32)
    vectors[0] = [-0.0, 1, 2]
    if dtype == "float32":
        vectors[1] = [1e-45, np.finfo(np.float32).max, 0.1]
    return [
        {"id": (numbers if id_type == "uint64" else texts)[i], "vector": vectors[i], "payload": PAYLOADS[i % len(PAYLOADS)],
         "made": times[i % 5], "price": doubles[i % 7], "year": [-2**63, 2**63 - 1, None][i % 3], "good": [True, False, None][i % 3],
         "word": ["", None, "\x00\t\u007f"][i % 3], "tags": [[], None, ["x", "ü"]][i % 3], "times": [times[:4], None][i % 2],
         "prices": [doubles, []][i % 2]}
        for i in range(105)]


def contents(docs: Any) -> list[Any]:
    found: list[Any] = []
    for page in docs.scan():
        found.append((list(page.ids), page.payloads, page.vectors.tobytes(), [each.raw() for each in page.columns]))
    return [repr(found)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("id_type", ["uint64", "string"])
def test_an_export_of_one_client_was_changed_by_the_other(create, command, rng, tmp_path, id_type, dtype):
    """A payload of bytes became the text {"$base64": ...}; times and infinities were refused."""
    options = {"id_type": id_type, "dtype": dtype, "attributes": DECLARED}
    docs = create(3, **options)
    docs.upload(rows_of(id_type, dtype, rng))
    wanted = contents(docs)
    for file in ("python.parquet", "python.jsonl", "python.jsonl.gz", "command.jsonl"):
        if file.startswith("command"):
            assert command("export", docs.name, tmp_path / file).returncode == 0
        else:
            assert docs.export(tmp_path / file).rows_count == 105
        copy = create(3, **options)
        copy.upload(tmp_path / file)
        assert contents(copy) == wanted, file
        if file.endswith(".jsonl"):
            other = create(3, **options)
            done = command("upload", other.name, tmp_path / file)
            assert done.returncode == 0, done.stderr
            assert contents(other) == wanted, file
    assert gzip.open(tmp_path / "python.jsonl.gz").read() == (tmp_path / "python.jsonl").read_bytes()
    assert not list(tmp_path.glob("*.partial"))


def cell(value: Any) -> str:
    """Returns a value of JSON as a cell of CSV."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return '"' + text.replace('"', '""') + '"'


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("id_type", ["uint64", "string"])
def test_both_clients_read_the_same_rows_from_csv(create, command, rng, tmp_path, id_type, dtype):
    """The command refused the files."""
    options = {"id_type": id_type, "dtype": dtype, "attributes": DECLARED}
    rows = [{**row, "payload": row["payload"].replace(b"\xff", b"x")} for row in rows_of(id_type, dtype, rng)]
    docs = create(3, **options)
    docs.upload(rows)
    docs.export(tmp_path / "rows.jsonl")
    payloads = {row["id"]: row["payload"].decode() or None for row in rows}
    with (tmp_path / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        names = ["payload", *DECLARED, "vector", "id"]
        print(",".join(names), end="\r\n", file=file)
        for line in (tmp_path / "rows.jsonl").read_text().split("\n")[:-1]:
            row = json.loads(line, parse_int=lambda text: -0.0 if text == "-0" else int(text))
            row["payload"] = payloads[row["id"]]
            print(*(cell(row.get(name)) for name in names), sep=",", end="\r\n", file=file)
    copy, other = create(3, **options), create(3, **options)
    copy.upload(tmp_path / "rows.csv")
    done = command("upload", other.name, tmp_path / "rows.csv")
    assert done.returncode == 0, done.stderr
    assert contents(copy) == contents(other) == contents(docs)


@pytest.mark.parametrize("file", ["rows.npy", "rows.csv", "rows", "rows.parquet.gz", "rows.feather"])
def test_an_export_wrote_parquet_into_a_file_of_another_format(create, tmp_path, file):
    with pytest.raises(ValueError, match=f"{file}: an export is a file .parquet, .jsonl or .jsonl.gz"):
        create(3).export(tmp_path / file)
    assert not list(tmp_path.iterdir())


def test_parts_of_rows_may_be_left_out(create, tmp_path):
    docs = create(3, attributes={"year": int, "word": str})
    docs.upload([{"id": 1, "vector": [1, 2, 3], "payload": "x", "year": 1, "word": "y"}, {"id": 2, "vector": [1, 2, 3]}])
    docs.export(tmp_path / "rows.jsonl", vectors=False, payload=False, attributes=["year"])
    assert (tmp_path / "rows.jsonl").read_text() == '{"id":1,"year":1}\n{"id":2}\n'
    assert docs.export(tmp_path / "rows.jsonl", filter="year == 2").rows_count == 0
    assert (tmp_path / "rows.jsonl").read_text() == ""


def test_no_members_of_payloads_are_no_payloads(create, tmp_path):
    docs = create(2)
    docs.upload([{"id": 1, "vector": [1, 2], "payload": {"a": 1}}])
    docs.export(tmp_path / "rows.parquet", payload=[])
    assert pq.read_table(tmp_path / "rows.parquet").column_names == ["id", "vector"]


def test_payloads_are_exported_as_text_or_columns(create, tmp_path):
    docs = create(3, attributes={"word": str})
    docs.upload([{"id": 1, "vector": [1, 2, 3], "payload": {"title": "ü", "n": [1, 2.50], "none": None}, "word": "a"},
                 {"id": 2, "vector": [1, 2, 3], "payload": {"n": 7}}, {"id": 3, "vector": [1, 2, 3]}])
    docs.export(tmp_path / "rows.parquet", payload="text", vectors=False)
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table.column_names == ["id", "payload", "word"]
    assert [each and json.loads(each) for each in table["payload"].to_pylist()] == [
        {"title": "ü", "n": [1, 2.5], "none": None}, {"n": 7}, None]
    docs.export(tmp_path / "rows.parquet", payload=["title", "n", "none"])
    table = pq.read_table(tmp_path / "rows.parquet").drop_columns(["vector", "word"])
    assert table.to_pylist() == [{"id": 1, "title": "ü", "n": "[1,2.5]", "none": None}, {"id": 2, "title": None, "n": "7", "none": None},
                                 {"id": 3, "title": None, "n": None, "none": None}]
    docs.upload([{"id": 4, "vector": [1, 2, 3], "payload": b"\xff"}])
    for payload, words in (("text", "id 4: its payload is not UTF-8"), (["n"], "id 4: its payload is not UTF-8"),
                           (["word"], "payload: the member 'word' is also another column"), ("json", 'payload: \'json\'; True, False, "text"')):
        with pytest.raises(ValueError, match=words):
            docs.export(tmp_path / "other.parquet", payload=payload)
    docs.delete([4])
    docs.upload([{"id": 0, "vector": [1, 2, 3], "payload": "[]"}])
    with pytest.raises(ValueError, match="id 0: its payload is no JSON object: column 1: expected {"):
        docs.export(tmp_path / "other.parquet", payload=["n"])
    with pytest.raises(ValueError, match="payload: 'text'; a file .jsonl has each payload as it is stored"):
        docs.export(tmp_path / "rows.jsonl", payload="text")
    assert [each.name for each in tmp_path.iterdir()] == ["rows.parquet"]


def test_attributes_that_a_line_cannot_hold_are_refused(create, tmp_path):
    docs = create(3, attributes={"payload": str})
    with pytest.raises(ValueError, match=r"rows.jsonl: an attribute 'payload' needs a file .parquet"):
        docs.export(tmp_path / "rows.jsonl")
    docs.export(tmp_path / "rows.jsonl", attributes=())


def test_a_large_export_has_row_groups_of_many_rows(client, name, tmp_path):
    """Each page of a scan became a row group, which made files large and slow to read."""
    docs = client.create_collection(name, 256, metric="dot")
    docs.upload(np.ones((30_000, 256), np.float32))
    docs.export(tmp_path / "rows.parquet")
    file = pq.ParquetFile(tmp_path / "rows.parquet")
    assert file.num_row_groups == 1 and file.metadata.num_rows == 30_000
    assert isinstance(docs.info(), nearfield.CollectionInfo)
