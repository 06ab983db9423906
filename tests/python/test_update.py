"""Updates, and attributes that are added and dropped, on a real server: after any history each answer is that of a
model in plain Python. Compare and set loses nothing."""

from __future__ import annotations

import copy
import datetime as dt
import random
import threading
import time
from typing import Any

import attributes as model
import nearfield
import numpy as np
import pytest
from conftest import answer, run_together
from nearfield import F
from test_filters import expression
from update_model import DECLARED, Rows, draw_assignment, draw_changes, draw_payload

IDS = 40
UTC = dt.timezone.utc
LOCAL = {"memory_bytes": "64MiB", "host_memory_bytes": "64MiB", "backend": "cpu", "threads": 1}


def upload(docs: Any, rows: Rows, draw: random.Random, ids: list[int]) -> None:
    """Stores rows, or replaces them."""
    made, payloads = [model.draw_row(draw) for _ in ids], [draw_payload(draw) for _ in ids]
    columns = {name: [row.get(name) for row in made] for name in DECLARED}
    vectors = [[each, 1] for each in ids]
    docs.upload(np.array(vectors, np.float32), ids=ids, attributes=columns, payloads=payloads, mode="upsert")
    for each, row, payload in zip(ids, made, payloads, strict=True):
        rows.put(each, row, payload)


def step(docs: Any, rows: Rows, draw: random.Random) -> None:
    """Makes one random change, whose reply must be that of the model."""
    kind = draw.choices(["ids", "filter", "upload", "delete"], [6, 3, 1, 1])[0]
    ids = draw.sample(range(IDS), draw.randint(1, 12))
    tree = model.draw_filter(draw, list(range(IDS)))
    epoch = docs.info().epoch
    if kind == "upload":
        upload(docs, rows, draw, ids)
    elif kind == "delete":
        there = [each for each in ids if each in rows.attributes]
        assert docs.delete(ids).rows_deleted == len(there)
        for each in there:
            rows.delete(each)
    elif kind == "filter":
        chosen, given = rows.passing(tree), draw_assignment(draw)
        done = docs.update(filter=expression(tree), **given)
        assert (done.rows, done.epoch, len(done.missing), len(done.refused)) == (len(chosen), epoch + bool(chosen), 0, 0)
        for each in chosen:
            for name, value in given["attributes"].items():
                rows.change(each, name, value)
            if given["payloads"] is not None:
                rows.change(each, "payload", given["payloads"])
    else:
        passing = set(rows.passing(tree)) if draw.random() < 0.5 else None
        given = draw_changes(draw, len(ids))
        condition = {} if passing is None else {"if_": expression(tree)}
        done = docs.update(ids, **given, **condition)
        passes = (lambda _: True) if passing is None else passing.__contains__
        changed, missing, refused = rows.update(ids, given.get("attributes"), given.get("payloads"), passes)
        assert (done.rows, list(done.missing), list(done.refused)) == (changed, missing, refused)
        assert done.epoch == epoch + bool(changed)


def check(docs: Any, rows: Rows, draw: random.Random) -> None:
    """Demands the answers of the model: a fetch, a scan, counts, and searches with and without a filter."""
    rows.check(docs.fetch(range(IDS), attributes="*"))
    for page in docs.scan():  # one, unless there is no row
        rows.check(page)
    for _ in range(4):
        tree = model.draw_filter(draw, list(range(IDS)))
        chosen = rows.passing(tree)
        assert docs.count(expression(tree)).rows_count == len(chosen), tree
        found = docs.search([1, 0], k=IDS, filter=expression(tree))
        assert list(found.ids) == sorted(chosen, reverse=True) and found.matched_rows == len(chosen), tree
    assert list(docs.search([1, 0], k=IDS).ids) == sorted(rows.attributes, reverse=True)


def test_any_history_of_updates_is_that_of_the_model(client, name, draw):
    docs, rows = client.create_collection(name, 2, metric="dot", attributes=DECLARED), Rows()
    upload(docs, rows, draw, list(range(IDS // 2)))
    for _ in range(60):
        step(docs, rows, draw)
        check(docs, rows, draw)
    docs.compact()
    check(docs, rows, draw)


def test_a_history_in_this_process_survives_the_end_of_the_process(tmp_path, draw):
    rows = Rows()
    for round_ in range(4):
        with nearfield.open(tmp_path / "data", **LOCAL) as client:
            docs = client.create_collection("docs", 2, metric="dot", attributes=DECLARED, if_missing=True)
            if round_ == 0:
                upload(docs, rows, draw, list(range(IDS // 2)))
            check(docs, rows, draw)
            for _ in range(20):
                step(docs, rows, draw)
            check(docs, rows, draw)


def test_a_history_survives_a_restart(start, tmp_path_factory, connect, draw):
    """Also after kill -9."""
    rows, folder = Rows(), tmp_path_factory.mktemp("data")
    for round_ in range(3):
        server = start("--data-dir", str(folder))
        docs = connect(server.address).create_collection("docs", 2, metric="dot", attributes=DECLARED, if_missing=True)
        if round_ == 0:
            upload(docs, rows, draw, list(range(IDS // 2)))
        check(docs, rows, draw)
        for _ in range(20):
            step(docs, rows, draw)
        check(docs, rows, draw)
        server.kill()


def test_vectors_and_scores_stay(client, name, rng):
    docs = client.create_collection(name, 8, metric="cosine", attributes={"n": int})
    vectors = rng.standard_normal((300, 8), dtype=np.float32)
    docs.upload(vectors)
    wanted = answer(docs.search(vectors[0], k=300))
    for number in range(5):
        docs.update(np.arange(number, 300, 2), attributes={"n": number}, payloads=["x"] * len(range(number, 300, 2)))
        docs.update(filter=F.n == number, attributes={"n": None})
        assert answer(docs.search(vectors[0], k=300)) == wanted
    assert docs.fetch(np.arange(300)).vectors.tobytes() == vectors.tobytes()
    assert docs.verify(vectors[0], claim=docs.search(vectors[0], k=20)).equal


def test_an_earlier_epoch_keeps_its_values(client, name, draw):
    docs, rows = client.create_collection(name, 2, metric="dot", attributes=DECLARED), Rows()
    upload(docs, rows, draw, list(range(IDS)))
    kept = []
    for _ in range(8):
        pinned = docs.pin_epoch()
        kept.append((copy.deepcopy(rows), {"at_epoch": pinned.epoch, "incarnation": pinned.incarnation}))
        step(docs, rows, draw)
    for before, at in kept:
        before.check(docs.fetch(range(IDS), attributes="*", **at))
        tree = model.draw_filter(draw, list(range(IDS)))
        assert docs.count(expression(tree), **at).rows_count == len(before.passing(tree))


@pytest.mark.parametrize("how", ["if_", "if_epoch"])
def test_no_increment_of_several_agents_is_lost(shared, name, how):
    agents, increments = 6, 15
    with nearfield.connect(shared.address) as client:
        docs = client.create_collection(name, 2, metric="dot", attributes={"count": int})
        docs.upload([[1, 0], [0, 1]], attributes={"count": [0, 0]})

    def add_one(docs: Any, row: int) -> None:
        while True:
            found = docs.fetch([row], attributes=["count"])
            count = found.attributes["count"][0]
            condition = {"if_": F.count == count} if how == "if_" else {"if_epoch": found.epoch, "incarnation": found.incarnation}
            try:
                done = docs.update([row], attributes={"count": count + 1}, **condition)
            except nearfield.FailedPrecondition:
                assert how == "if_epoch"
                continue
            if done.rows:
                return
            assert list(done.refused) == [row]

    def run(agent: int) -> None:
        with nearfield.connect(shared.address) as client:
            for number in range(increments):
                add_one(client.collection(name), (agent + number) % 2)

    run_together([lambda agent=agent: run(agent) for agent in range(agents)])
    with nearfield.connect(shared.address) as client:
        counts = client.collection(name).fetch([0, 1], attributes=["count"]).attributes["count"]
        assert sum(counts) == agents * increments
        client.drop_collection(name)


def test_an_update_with_a_token_happens_once(client, name):
    docs = client.create_collection(name, 2, metric="dot", attributes={"n": int})
    docs.upload([[1, 0], [0, 1]], attributes={"n": [0, 0]})
    first = docs.update([0, 9], attributes={"n": 1}, if_=F.n == 0, token="once")
    docs.update([0], attributes={"n": 5})
    again = docs.update([0, 9], attributes={"n": 1}, if_=F.n == 0, token="once")
    assert (again.rows, again.epoch, list(again.missing), list(again.refused)) == (1, first.epoch, [9], [])
    with pytest.raises(nearfield.FailedPrecondition, match=r'"once" is that of another update'):
        docs.update([1], attributes={"n": 7}, token=b"once")
    assert docs.fetch([0, 1], attributes=["n"]).attributes == {"n": [5, 0]}


def test_reads_of_the_same_client_see_an_update(shared, name):
    """Another connection has written."""
    with nearfield.connect(shared.address) as client:
        docs = client.create_collection(name, 2, metric="dot", attributes={"n": int})
        docs.upload([[1, 0]])
        for number in range(50):
            docs.update([0], attributes={"n": number})
            assert docs.count(F.n == number).rows_count == 1


@pytest.mark.parametrize(("ids", "given", "kind", "words"), [
    ([1, 1], {"attributes": {"year": 1}}, nearfield.InvalidArgument, "1"), (["a"], {"attributes": {"year": 1}}, nearfield.InvalidArgument, "ids: 'a'"),
    ([1], {"attributes": {"year": 1}, "if_": F.yaer == 1}, nearfield.InvalidArgument, "yaer"),
    ([1], {"attributes": {"year": 1}, "if_": "year == "}, nearfield.InvalidArgument, "if_filter_text"),
    ([1], {"attributes": {"year": 1}, "if_": F.year == "x"}, nearfield.InvalidArgument, "year"),
    ([1], {"attributes": {"year": 1}, "if_epoch": 7}, nearfield.FailedPrecondition, "7"),
    ([1], {"attributes": {"year": 1}, "if_epoch": 1, "incarnation": 7}, nearfield.FailedPrecondition, "7"),
    ([1], {"attributes": {"owner": "x" * 1025}}, nearfield.InvalidArgument, r"row 0 \(id 1\): attributes\['owner'\]: 1025 bytes, must be at most 1024"),
    ([1], {"payloads": ["x" * 70_000]}, nearfield.InvalidArgument, r"row 0 \(id 1\): payload: 70000 bytes, must be at most 65536"),
    ([1], {"attributes": {"tags": [["x" * 1000] * 70]}}, nearfield.InvalidArgument, "attributes"), ([1], {"attributes": {"year": 1}, "token": ""}, nearfield.Error, "token"),
    (None, {"attributes": {"year": 1}, "filter": "yaer == 1"}, nearfield.InvalidArgument, "yaer"),
    (None, {"attributes": {"year": 1}, "filter": "year == 1", "if_": "year == 1"}, nearfield.InvalidArgument, "if_filter_text"),
])
def test_a_refused_update_changes_nothing(client, name, ids, given, kind, words):
    docs = client.create_collection(name, 2, metric="dot", attributes={"year": int, "owner": str, "tags": [str]})
    docs.upload([[1, 0], [0, 1]], attributes={"year": [2020, 2021]}, payloads=["a", "b"])
    with pytest.raises(kind, match=words):
        docs.update(ids, **given)
    found = docs.fetch([0, 1], attributes="*")
    assert (found.epoch, found.payloads, found.attributes["year"]) == (1, [b"a", b"b"], [2020, 2021])
    client.drop_collection(name)


def test_a_row_that_names_nothing_keeps_all(client, name):
    docs = client.create_collection(name, 2, metric="dot", attributes={"n": int, "tags": [str]})
    docs.upload([[1, 0], [0, 1], [1, 1]], attributes={"n": [1, 2, 3], "tags": [["x"], [], None]}, payloads=["a", "b", "c"])
    docs.update([2, 0, 1], attributes=[{}, {"n": None, "payload": None}, {"tags": ["y", "y"]}])
    found = docs.fetch([0, 1, 2], attributes="*")
    assert found.attributes == {"n": [None, 2, 3], "tags": [["x"], ["y", "y"], None]} and found.payloads == [b"", b"b", b"c"]


# Declarations.


def test_attributes_are_added_and_dropped(client, shared, name):
    docs = client.create_collection(name, 2, metric="dot", attributes={"n": int})
    docs.upload([[1, 0], [0, 1]], attributes={"n": [1, 2]})
    with nearfield.connect(shared.address) as other:
        theirs = other.collection(name)
        assert theirs.fetch([0], attributes="*").attributes == {"n": [1]}
        pinned = docs.pin_epoch()
        assert docs.add_attribute("tags", [str]) == pinned.epoch + 1
        assert docs.fetch([0, 1], attributes=["tags"]).attributes == {"tags": [None, None]} and docs.count(F.tags.exists()).rows_count == 0
        theirs.update([1], attributes={"tags": [["x", "y"]]})
        assert docs.search([1, 0], filter=F.tags.any(["y"]), attributes=["tags", "n"]).attributes == {"tags": [["x", "y"]], "n": [2]}
        assert docs.drop_attribute("n") == pinned.epoch + 3
        for call in (lambda: docs.count(F.n == 1), lambda: docs.fetch([0], attributes=["n"]), lambda: docs.update([0], attributes={"n": 1})):
            with pytest.raises(ValueError, match="n"):
                call()
        docs.add_attribute("n", str)
        assert docs.count(F.n.exists()).rows_count == 0 and docs.info().declared["n"].type == "keyword"
        theirs.update([0], attributes={"n": "text"})  # which this client knows as an int64
        for each in (docs, theirs):
            assert each.fetch([0, 1], attributes=["n"]).attributes == {"n": ["text", None]}
            old = each.fetch([0, 1], attributes="*", at_epoch=pinned.epoch, incarnation=pinned.incarnation)
            assert old.attributes == {"n": [1, 2]}
        docs.upload([[1, 1]], ids=[5], attributes={"n": ["new"], "tags": [["z"]]})
        assert docs.count(F.n == "new").rows_count == 1
    for call, kind in (
        (lambda: docs.add_attribute("n", int), nearfield.InvalidArgument), (lambda: docs.drop_attribute("m"), nearfield.NotFound),
        (lambda: docs.add_attribute("id_", "keyword:expires"), nearfield.InvalidArgument),
        (lambda: docs.add_attribute("x", "timestamp[]:expires"), nearfield.InvalidArgument),
    ):
        with pytest.raises(kind):
            call()


def test_rows_expire(start, connect):
    """A row without a time stays; one whose time is moved stays until then."""
    client = connect(start("--expire-interval-s", "1").address)
    declared = {"until": "timestamp:expires", "n": int}
    docs = client.create_collection("docs", 2, metric="dot", attributes=declared)
    assert [each.text for each in docs.info().attributes] == ["timestamp:expires", "int64"]
    now = dt.datetime.now(UTC)
    late = now + dt.timedelta(days=1)
    docs.upload([[1, 0]] * 4, attributes={"until": [late, None, now, late]})
    docs.update([3], attributes={"until": now})
    deadline = time.monotonic() + 60
    while docs.count().rows_count > 2:
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)
    found = docs.fetch(range(4), attributes=["until"])
    assert list(found.ids) == [0, 1] and found.attributes == {"until": [late, None]} and list(found.missing) == [2, 3]
    with pytest.raises(nearfield.InvalidArgument):
        docs.add_attribute("second", "timestamp:expires")
    client.create_collection("docs", 2, metric="dot", attributes=declared, if_missing=True)
    with pytest.raises(nearfield.AlreadyExists, match="other attributes: until:timestamp, until:timestamp:expires"):
        client.create_collection("docs", 2, metric="dot", attributes={"until": dt.datetime, "n": int}, if_missing=True)
