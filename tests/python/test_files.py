"""Files of rows: encodings, lines without rows, CSV, and files of vectors of another size. The Python
client and the command read the same files with the same results."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import nearfield
import numpy as np
import pandas as pd
import pytest

ROW = '{"id": %d, "vector": [1, 2], "payload": "%s", "word": "%s"}\n'


@pytest.mark.parametrize(("line", "words"), [
    ((ROW % (2, "café", "x")).encode("latin-1"), r"byte \d+ is not UTF-8"),
    ((ROW % (2, "x", "é")).encode("latin-1"), r"byte \d+ is not UTF-8"),
    ((ROW % (2, "\\ud83d", "x")).encode(), 'id 2.*payload: .*surrogate'),
    ((ROW % (2, "x", "\\ud83d")).encode(), r"attributes\['word'\]: '.ud83d' has half of a surrogate pair"),
    (b'{"id": 2, "vector": [1, 2], "payload": {"a": "\\udc00"}}', "payload: half of a surrogate pair"),
    (b'{"id": 2, "vector": [1, NaN]}', "NaN is not a number of JSON"),
    (b'{"id": 2, "vector": [1, true]}', "vector: element 1 is True; a number is needed"),
    (b'{"id": 2, "vector": "[1, 2]"}', "vector: .* a list of numbers is needed"),
    (b'{"id": 2, "vector": [1, 2], "word": 1e999}', "1e999 is beyond the range of a double"),
    (b'{"id": 2, "vector": [1, 2], "price": 1' + b"0" * 400 + b"}", r"attributes\['price'\]: a number beyond"),
    (b'{"id": 2, "vector": [1, 2]} {}', "column 29: text after the object"),
    (b'{"id": -2, "vector": [1, 2]}', "id: -2; a number must be from 0"),
    (b'{"id": "b", "vector": [1, 2]}', "id: 'b' after numbers; ids are all int or all str"),
    (b'{"vector": [1, 2]}', "no member id"),
    (b'{"id": 2, "vector": [1, 2], "id": 3}', "member 'id' twice"),
    (b'[' * 100_000, "column 1: expected {"),
    (b'{"id": 2, "vector": [1, 2], "payload": ' + b"[" * 100_000, "nested too deeply"),
])
def test_a_bad_line_raised_an_error_without_its_place(create, command, tmp_path, line, words):
    """Files that are not UTF-8 raised "function takes exactly 5 arguments (1 given)"."""
    docs = create(attributes={"word": str, "price": float})
    path = tmp_path / "rows.jsonl"
    path.write_bytes((ROW % (1, "ok", "ok")).encode() + b"\n" + line)
    with pytest.raises((TypeError, ValueError), match=f"rows.jsonl:3.*{words}"):
        docs.upload(path)
    done = command("upload", docs.name, path)
    assert done.returncode == 2 and "rows.jsonl: line 3: " in done.stderr
    assert docs.count().rows_count == 0


def test_decimals_next_to_the_middle_of_two_numbers_were_stored_as_different_bits(create, command, rng, tmp_path):
    """The command rounded them once, Python to a double first."""
    numbers = np.concatenate([rng.standard_normal(90), rng.standard_normal(10) * 1e-44]).astype(np.float32)
    above = np.nextafter(numbers, np.float32(9))
    middles = [f"{(float(a) + float(b)) / 2:.200f}" for a, b in zip(numbers, above, strict=True)]
    lines = [f'{{"id": {i}, "vector": [{each}1, {each}]}}\n' for i, each in enumerate(middles)]
    (tmp_path / "rows.jsonl").write_text("".join(lines))
    by_python, by_command = create(), create()
    by_python.upload(tmp_path / "rows.jsonl")
    assert command("upload", by_command.name, tmp_path / "rows.jsonl").returncode == 0
    vectors = [docs.fetch(range(100)).vectors for docs in (by_python, by_command)]
    assert vectors[0].tobytes() == vectors[1].tobytes()
    assert vectors[0][:, 0].tolist() == [max(a, b, key=abs) for a, b in zip(numbers.tolist(), above.tolist(), strict=True)]


def test_a_file_with_embeddings_as_openai_names_them_had_to_be_rewritten(create, command, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 7, "embedding": [1, 2]}\n{"id": 8, "embedding": [3, 4]}\n')
    by_python, by_command = create(), create()
    by_python.upload(path)
    assert command("upload", by_command.name, path).returncode == 0
    for docs in (by_python, by_command):
        assert docs.fetch([7, 8]).vectors.tolist() == [[1, 2], [3, 4]]
    found = command("search", by_python.name, "--queries", path, "-k", "1", "--json")
    assert found.returncode == 0, found.stderr
    docs = create(attributes={"embedding": int})
    docs.upload([{"id": 7, "vector": [1, 2], "embedding": 5}])
    path.write_text('{"id": 9, "vector": [1, 2], "embedding": 6}\n')
    docs.upload(path)
    assert command("upload", docs.name, path, "--mode", "upsert").returncode == 0
    assert list(docs.fetch([9], attributes=["embedding"]).attributes["embedding"]) == [6]


def test_a_file_of_utf16_is_named_as_such(create, command, tmp_path):
    path = tmp_path / "rows.jsonl"
    for encoding in ("utf-16-le", "utf-16-be"):
        path.write_bytes(("\ufeff" + ROW % (1, "a", "b")).encode(encoding))
        with pytest.raises(ValueError, match="rows.jsonl:1: the text is UTF-16; write it as UTF-8"):
            create().upload(path)
        assert "rows.jsonl: line 1: the text is UTF-16; write it as UTF-8" in command("upload", create().name, path).stderr
    path = path.rename(tmp_path / "rows.csv")
    with pytest.raises(ValueError, match="rows.csv:1: the text is UTF-16"):
        create().upload(path)
    assert "rows.csv: line 1: the text is UTF-16" in command("upload", create().name, path).stderr


@pytest.mark.parametrize("text", [
    '\ufeff{"vector": [1, 2]}\n{"vector": [3, 4]}\n',
    '{"vector": [1, 2]}\n\n \t\r\n{"vector": [3, 4]}\r\n',
    '\ufeff\n{"vector": [1, 2]}\n{"vector": [3, 4]}\n\n\n',
])
def test_a_file_was_read_by_one_client_and_refused_by_the_other(create, command, tmp_path, text):
    """Python refused a byte order mark, the command lines without a row."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(text.encode())
    docs, other = create(), create()
    docs.upload(path)
    done = command("upload", other.name, path)
    assert done.returncode == 0, done.stderr
    for each in (docs, other):
        assert each.fetch([0, 1]).vectors.tolist() == [[1, 2], [3, 4]]


def test_ids_of_later_rows_were_mixed_with_numbers(create, tmp_path):
    """A batch of 8,192 rows without ids between batches with ids got numbers."""
    lines = ['{"id": %d, "vector": [1, 2]}' % (100_000 + i) for i in range(8192)]
    (tmp_path / "rows.jsonl").write_text("\n".join([*lines, '{"vector": [1, 2]}']))
    with pytest.raises(ValueError, match="rows.jsonl:8193: no member id"):
        create().upload(tmp_path / "rows.jsonl")
    rows = [{"vector": [1, 2]}] * 8192
    with pytest.raises(ValueError, match="row 8192: a member id, which row 0 lacks"):
        create().upload([*rows, {"id": 7, "vector": [1, 2]}])


@pytest.mark.parametrize("suffix", [".npy", ".fbin", ".fvecs"])
@pytest.mark.parametrize("change", [b"12345678", None])
def test_vectors_of_another_size_than_the_header_says_are_refused(create, command, tmp_path, suffix, change):
    """Python dropped trailing bytes of a .npy, and said "mmap length is greater than file size"."""
    path, values = tmp_path / f"rows{suffix}", np.ones((3, 2), np.float32)
    if suffix == ".npy":
        np.save(path, values)
    else:
        head = np.array([3, 2], "<i4") if suffix == ".fbin" else np.zeros(0)
        rows = [values] if suffix == ".fbin" else [part for row in values for part in (np.int32(2), row)]
        path.write_bytes(head.tobytes() + b"".join(each.tobytes() for each in rows))
    create().upload(path)
    path.write_bytes(path.read_bytes() + change if change else path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=f"rows{suffix}"):
        create().upload(path)
    done = command("upload", create().name, path)
    assert done.returncode == 2 and f"rows{suffix}" in done.stderr


@pytest.mark.parametrize("file", ["rows.npy", "rows.parquet", "rows.hdf5", "rows.jsonl.gz"])
def test_an_error_about_a_damaged_file_did_not_name_it(create, tmp_path, file):
    (tmp_path / file).write_bytes(b"not such a file")
    with pytest.raises(ValueError, match=file):
        create().upload(tmp_path / file)
    with pytest.raises(FileNotFoundError, match="none"):
        create().upload(tmp_path / f"none-{file}")


def test_a_damaged_file_of_gzip_raised_an_error_of_zlib(create, tmp_path):
    data = bytearray(gzip.compress(b"".join(b'{"id": %d, "vector": [1, 2]}\n' % i for i in range(1000))))
    data[40] ^= 255
    (tmp_path / "rows.jsonl.gz").write_bytes(data)
    with pytest.raises(ValueError, match=r"rows.jsonl.gz: .*decompressing"):
        create().upload(tmp_path / "rows.jsonl.gz")


def test_bits_of_bfloat16_were_taken_for_integers(create, tmp_path):
    """A .npy file of the type V2 in a collection of float32 had the rows [16256, 16384]."""
    np.save(tmp_path / "rows.npy", np.array([[0x3F80, 0x4000]], "<u2").view("V2"))
    with pytest.raises(TypeError, match="vectors: .V2; the collection stores float32"):
        create().upload(tmp_path / "rows.npy")
    docs = create(None, like=tmp_path / "rows.npy")
    docs.upload(tmp_path / "rows.npy")
    assert docs.info().dtype == "bfloat16" and docs.fetch([0]).vectors.tolist() == [[1, 2]]


def test_minus_zero_of_a_double_lost_its_sign(create, command, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"vector": [-0, 1], "price": -0, "prices": [-0]}\n')
    for upload in (lambda each: each.upload(path), lambda each: command("upload", each.name, path)):
        docs = create(attributes={"price": float, "prices": [float]})
        upload(docs)
        found = docs.fetch([0], attributes="*")
        values = [found.vectors[0, 0], found.attributes["price"][0], *found.attributes["prices"][0]]
        assert [str(float(each)) for each in values] == ["-0.0"] * 3


def test_a_payload_keeps_its_own_spelling(create, command, tmp_path):
    """Python wrote it again: other escapes and digits than the command stored."""
    payloads = ['{"a": "\\u00fc\\n", "b": 1.10, "b":1E2}', '"\\u00fc"', "null", " [ 1 ] ", "-0", '{"$base64": "/wA="}', '{"$base64": 1}']
    path = tmp_path / "rows.jsonl"
    path.write_text("".join('{"vector": [1, 2], "payload": %s}\n' % each for each in payloads))
    docs, other = create(), create()
    docs.upload(path)
    assert command("upload", other.name, path).returncode == 0
    stored = docs.fetch(range(len(payloads))).payloads
    assert stored == other.fetch(range(len(payloads))).payloads
    assert stored[:4] == [b'{"a":"\\u00fc\\n","b":1.10,"b":1E2}', "ü".encode(), b"", b"[1]"]
    assert stored[5] == b"\xff\x00"


CSV = '''\ufefftitle,id,vector,word,tags,year,price,good,made
"one, ""two""",a,"[1, 2]","",,2020,inf,true,2024-05-17T09:30:00+02:00
"two
lines",b,"[3, 4]",,"[""x"", ""y""]",-3,1e3,False,2024-05-17

,c,"[5, 6]",ü,[],,,,
'''
CSV_TYPES = {"word": str, "tags": [str], "year": int, "price": float, "good": bool, "made": "timestamp"}


def test_rows_are_read_from_csv(create, tmp_path):
    (tmp_path / "rows.csv").write_bytes(CSV.encode())
    with gzip.open(tmp_path / "rows.csv.gz", "wb") as file:
        file.write(CSV.replace("\n", "\r\n").replace("two\r\n", "two\n").encode())
    for path in (tmp_path / "rows.csv", tmp_path / "rows.csv.gz"):
        docs = create(id_type="string", attributes=CSV_TYPES)
        docs.upload(path, payloads=["title"])
        found = docs.fetch(["a", "b", "c"], attributes="*")
        assert found.vectors.tolist() == [[1, 2], [3, 4], [5, 6]]
        assert [json.loads(each)["title"] for each in found.payloads] == ['one, "two"', "two\nlines", None]
        made = found.attributes.pop("made")
        assert [each and each.isoformat() for each in made] == ["2024-05-17T07:30:00+00:00", "2024-05-17T00:00:00+00:00", None]
        assert found.attributes == {
            "word": ["", None, "ü"], "tags": [None, ["x", "y"], []], "year": [2020, -3, None],
            "price": [float("inf"), 1000, None], "good": [True, False, None]}


def test_line_ends_in_quotes_and_minus_zeros_of_csv_were_changed(create, tmp_path):
    (tmp_path / "rows.csv").write_bytes(b'id,vector,payload,price\r\n1,"[-0, 1]","a\r\nb\n",-0')
    docs = create(attributes={"price": float})
    docs.upload(tmp_path / "rows.csv")
    found = docs.fetch([1], attributes="*")
    assert found.payloads == [b"a\r\nb\n"]
    assert [str(float(each)) for each in (found.vectors[0, 0], found.attributes["price"][0])] == ["-0.0"] * 2


def test_a_quote_that_is_not_closed_collects_a_part_of_the_file(create, tmp_path, monkeypatch):
    """The rest of the file was read into one cell, in a time that grew with its square."""
    monkeypatch.setattr("nearfield._sources.csv_files.RECORD_MAX", 1000)
    (tmp_path / "rows.csv").write_text('id,vector\n1,"[1, 2]\n' + "2,3\n" * 1000 + '"\n')
    with pytest.raises(ValueError, match="rows.csv:2: a quote that is not closed"):
        create().upload(tmp_path / "rows.csv")


def test_csv_of_pandas_is_read_as_its_frame(create, tmp_path):
    frame = pd.DataFrame({
        "key": [7, 8], "embedding": [[0.1, 2], [3, 4]], "year": pd.array([2020, None], "Int64"), "price": [1.5, None],
        "good": [True, False], "word": ["a", None], "made": pd.to_datetime(["2024-05-17 09:30:00.25", None], utc=True),
        "payload": ["x", None]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    types = {key: CSV_TYPES[key] for key in ("year", "price", "good", "word", "made")}
    found = []
    for data in (frame, tmp_path / "rows.csv"):
        docs = create(attributes=types)
        docs.upload(data, ids="key", vectors="embedding")
        rows = docs.fetch([7, 8], attributes="*")
        found.append((rows.vectors.tolist(), rows.payloads, rows.attributes))
    assert found[0] == found[1]


@pytest.mark.parametrize(("text", "words"), [
    ("id,vector\n1,\"[1, 2]\"\n2,\"[1\"\n", "rows.csv:3: '\\[1' is not JSON"),
    ("id,vector\n1,\"[1, 2]\"\nx,\"[1, 2]\"\n", "rows.csv:3: id: 'x' after numbers"),
    ("id,vector,year\n1,\"[1, 2]\",\n2,\"[1, 2]\",1.5\n", r"rows.csv:3: attributes\['year'\]: '1.5'"),
    ("id,vector,price\n1,\"[1, 2]\",1e400\n", r"rows.csv:2: attributes\['price'\]: a number beyond"),
    ("id,vector\n1,\"[1, 2]\",3\n", "rows.csv:2: 3 cells; the first line has 2"),
    ("id;vector\n1;2\n", "rows.csv: no column 'id'; the columns are id;vector"),
    ("id,vector,yaer\n1,\"[1, 2]\",\n", "rows.csv: column 'yaer': no id, vector, payload or attribute"),
    ("\nid,vector,id\n", "rows.csv:2: column 'id' twice"),
    ("id,vector\n1,\"[1, 2]\n", "rows.csv:2: a quote that is not closed"),
    ("id,vector\n1,a\"b\n", "rows.csv:2: a quote that is not closed"),
    ("id,vector\n1,a\"b\"\n", "rows.csv:2: cell 2: a quote in the middle"),
    ("id,vector\n-1,\"[1, 2]\"\n", "rows.csv:2: id: texts; the collection .* has ids of type uint64"),
    ("id,vector\n\"\",\"[1, 2]\"\n", "rows.csv:2: id: texts; the collection .* has ids of type uint64"),
    ("id,vector\n1," + "[" * 100_000 + "\n", "rows.csv:2: values are nested too deeply"),
    ("id,vector,tags\n1,\"[1, 2]\",{}\n", r"rows.csv:2.*attributes\['tags'\]: an object"),
    ("id,vector\n1,\"[1, 2, 3]\"\n7,\"[1, 2]\"\n", r"rows.csv:2 \(id 1\): a vector of 3 numbers; the collection needs 2"),
])
def test_mistakes_in_csv_name_their_line(create, command, tmp_path, text, words):
    (tmp_path / "rows.csv").write_text(text)
    docs = create(attributes={"year": int, "price": float, "tags": [str]})
    with pytest.raises((TypeError, ValueError), match=words):
        docs.upload(tmp_path / "rows.csv")
    done = command("upload", docs.name, tmp_path / "rows.csv")
    place = re.match(r"rows.csv:(\d)", words)
    assert done.returncode == 2 and f"rows.csv: line {place[1] if place else 1}: " in done.stderr


def test_a_server_error_about_a_row_of_a_file_names_the_file(create, tmp_path):
    np.save(tmp_path / "rows.npy", np.array([[1, 2], [np.nan, 1]], np.float32))
    with pytest.raises(nearfield.InvalidArgument, match="rows.npy: .*row 1"):
        create().upload(tmp_path / "rows.npy")
