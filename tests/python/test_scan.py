"""Returned attributes, filters as text, scans and exports through both clients."""

from __future__ import annotations

import datetime as dt
from typing import Any

import attributes as model
import nearfield
import numpy as np
import pytest
from nearfield import F

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
DECLARED = {"year": int, "price": float, "good": bool, "language": str, "made": dt.datetime, "tags": [str]}
ROWS, DIM = 700, 6


@pytest.fixture
def rows(draw):
    """Attributes of each row, drawn by the model; times are datetimes."""
    found: list[dict[str, Any]] = [model.draw_row(draw) for _ in range(ROWS)]
    for row in found:
        if "made" in row:
            row["made"] = EPOCH + dt.timedelta(microseconds=row["made"])
    return found


@pytest.fixture
def ids(draw):
    found = [f"ü{number:04}" for number in range(ROWS)]
    draw.shuffle(found)
    return found


@pytest.fixture
def vectors(rng):
    return rng.standard_normal((ROWS, DIM), dtype=np.float32)


@pytest.fixture
def docs(client, name, rows, ids, vectors):
    made = client.create_collection(name, DIM, metric="dot", id_type="string", attributes=DECLARED)
    made.upload(
        vectors, ids=ids, payloads=[f"payload {i}".encode() if i % 3 else None for i in range(ROWS)],
        attributes={each: [row.get(each) for row in rows] for each in DECLARED})
    return made


def test_a_pinned_epoch_is_read_after_later_commits(docs, ids, vectors):
    before = docs.search(vectors[:3], k=5)
    pinned = docs.pin_epoch()
    assert pinned.rows_count == ROWS and pinned.kept_ms > 0
    gone = docs.delete(filter="exists(year) or not exists(year)")
    assert gone.epoch == pinned.epoch + 1 and docs.count().rows_count == 0
    at = {"at_epoch": pinned.epoch, "incarnation": pinned.incarnation}
    assert docs.count(**at).rows_count == ROWS
    after = docs.search(vectors[:3], k=5, **at)
    assert [list(hits.ids) for hits in after.queries] == [list(hits.ids) for hits in before.queries]
    assert [hits.scores.tobytes() for hits in after.queries] == [hits.scores.tobytes() for hits in before.queries]
    assert len(docs.fetch(ids[:9], **at).ids) == 9
    assert sum(len(page.ids) for page in docs.scan(**at)) == ROWS
    with pytest.raises(nearfield.FailedPrecondition, match="at_epoch"):
        docs.pin_epoch(at_epoch=gone.epoch + 1)


def test_attributes_are_returned_as_they_were_uploaded(docs, rows, ids, vectors):
    found = docs.search(vectors[0], k=ROWS, attributes="*")
    assert list(found.attributes) == list(DECLARED)
    for hit in found:
        row = rows[ids.index(hit.id)]
        assert dict(hit.attributes) == {each: row.get(each) for each in DECLARED}
        assert repr(hit.attributes["price"]) == repr(row.get("price"))  # also -0.0
    some = docs.fetch(ids[:50], attributes=["tags", "year"])
    assert some.attributes == {
        "year": [row.get("year") for row in rows[:50]], "tags": [row.get("tags") for row in rows[:50]]}
    page = next(iter(docs.search_all(vectors[0], k=10, attributes=["made"])))
    assert page.attributes["made"] == [rows[ids.index(each)].get("made") for each in page.ids]
    with pytest.raises(nearfield.InvalidArgument) as caught:
        docs.search(vectors[0], attributes=["yaer"])
    assert "attributes" in caught.value.field


def test_a_filter_may_be_text(docs, vectors, rows):
    text = 'language == "de" and (year >= 2020 or not exists(price)) and not tags any ("fr")'
    same = (F.language == "de") & ((F.year >= 2020) | ~F.price.exists()) & ~F.tags.any(["fr"])
    by_text = docs.search(vectors[1], k=ROWS, filter=text, with_digest=True)
    assert by_text.digest == docs.search(vectors[1], k=ROWS, filter=same, with_digest=True).digest
    assert docs.count(text).rows_count == docs.count(same).rows_count == by_text.matched_rows
    assert docs.verify(vectors[1], claim=by_text, filter=text).equal
    with pytest.raises(nearfield.InvalidArgument) as caught:
        docs.count("year >=")
    assert caught.value.field == "filter_text"
    deleted = docs.delete(filter="year < 2020")
    assert deleted.rows_deleted == sum(row.get("year", 2020) < 2020 for row in rows)


def test_a_scan_returns_every_row_in_the_order_of_ids(docs, rows, ids, vectors):
    order = sorted(range(ROWS), key=lambda i: ids[i].encode())
    pages = list(docs.scan())
    assert [each for page in pages for each in page.ids] == [ids[i] for i in order]
    assert (np.vstack([page.vectors for page in pages if len(page)]) == vectors[order]).all()
    payloads = [each for page in pages for each in page.payloads]
    assert payloads == [f"payload {i}".encode() if i % 3 else b"" for i in order]
    for each in DECLARED:
        assert [value for page in pages for value in page.attributes[each]] == [rows[i].get(each) for i in order]
    assert {page.epoch for page in pages} == {1} and pages[0].rows_count == ROWS
    some = list(docs.scan(filter=F.year >= 2020, vectors=False, payload=False, attributes=()))
    assert [each for page in some for each in page.ids] == [ids[i] for i in order if rows[i].get("year", 0) >= 2020]
    assert some[0].vectors is None and some[0].payloads == []
    first = list(docs.scan(rows_max=10))
    assert [each for page in first for each in page.ids] == [ids[i] for i in order[:10]]


def test_an_export_can_be_uploaded_again(docs, client, name, vectors, tmp_path):
    path = tmp_path / "rows.parquet"
    done = docs.export(path)
    assert (done.rows_count, done.epoch) == (ROWS, 1) and not list(tmp_path.glob("*.partial"))
    again = client.create_collection(name + "-again", DIM, metric="dot", id_type="string", attributes=DECLARED)
    again.upload(path, payloads="payload")
    for condition in (None, F.year > 2020, F.price <= 0, F.good == False, F.made < EPOCH, F.tags.any(["de", ""])):  # noqa: E712
        wanted, found = (each.search(vectors[:3], k=ROWS, filter=condition, with_digest=True) for each in (docs, again))
        assert wanted.digest == found.digest
    pages = [list(each.scan()) for each in (docs, again)]
    tables = [pa.concat_tables([page.to_arrow() for page in each]) for each in pages]
    assert tables[0].equals(tables[1])
    assert docs.export(tmp_path / "none.parquet", filter=F.year == 1).rows_count == 0
    empty = pq.read_table(tmp_path / "none.parquet")
    assert empty.num_rows == 0 and empty.schema.equals(pq.read_table(path).schema)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_rows_survive_an_export_to_the_bit(client, name, rng, dtype, tmp_path):
    docs = client.create_collection(name, DIM, metric="l2", dtype=dtype)
    docs.upload(rng.standard_normal((200, DIM), dtype=np.float32))
    docs.export(tmp_path / "rows.parquet", payload=False)
    again = client.create_collection(name + "-again", DIM, metric="l2", dtype=dtype)
    again.upload(tmp_path / "rows.parquet")
    ids = np.arange(200)
    assert docs.fetch(ids).vectors.tobytes() == again.fetch(ids).vectors.tobytes()
