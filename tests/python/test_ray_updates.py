"""Updates of a cluster: the operation that a client makes, what is refused, and replicas that apply it."""

from __future__ import annotations

import datetime as dt
import json
import types
from dataclasses import replace
from typing import Any

import nearfield
import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("ray")

from nearfield.ray import Client, _updates  # noqa: E402
from nearfield.ray._collection import ClusterCollection  # noqa: E402
from nearfield.ray._manifest import Done, Manifest, checked_operation  # noqa: E402
from ray_model import DIM, draw_vectors  # noqa: E402
from test_ray_parts import empty, error_of, replica  # noqa: E402, F401
from test_update_requests import info  # noqa: E402

DECLARED = {"year": "int64", "price": "double", "made": "timestamp", "tags": "keyword[]"}
MADE = dt.datetime(2024, 5, 17, tzinfo=dt.timezone.utc)


class Calls:
    """The calls of a client, which keep what is committed."""

    def __init__(self) -> None:
        self.committed: list[Any] = []

    def deadline(self, _: Any) -> float:
        return 1e12

    def read(self, name: str, timeout: Any, fresh: bool, ask: Any, shards: Any) -> Any:
        docs = types.SimpleNamespace(info=lambda timeout: info(**DECLARED))
        view = {"number": 7, "collections": {name: {"created": 3}}}
        return view, [ask(view, 0, docs, {}, 1.0)]

    def commit(self, name: str, operation: Any, token: Any, _: Any, created: Any) -> Done:
        self.committed.append(checked_operation(json.loads(json.dumps(operation))))
        assert (name, token, created) == ("docs", "once", 3)
        return Done(8, 5, 0, 3)


def test_an_update_is_an_operation_of_the_manifest():
    """Its values survive JSON: times, infinities, bytes."""
    calls: Any = Calls()
    values = {"year": np.int64(2020), "price": float("-inf"), "made": MADE, "tags": ["x", "ü"]}
    done = ClusterCollection(calls, "docs").update(filter="year < 2020", attributes=values, payloads=b"\xff\0", token="once")
    assert (done.rows, done.epoch, done.incarnation, len(done.missing), len(done.refused)) == (5, 8, 3, 0, 0)
    ClusterCollection(calls, "docs").update(filter="year < 2020", attributes={"year": None}, token="once")
    one, two = calls.committed
    assert one == {"kind": "update", "filter": "year < 2020", "payload": "/wA=", "attributes": {
        "year": 2020, "price": float("-inf"), "made": int(MADE.timestamp()) * 10**6, "tags": ["x", "ü"]}}  # fmt: skip
    assert two == {"kind": "update", "filter": "year < 2020", "payload": None, "attributes": {"year": None}}
    assert _updates.update_operation(info(**DECLARED), **_updates._arguments(one)) == one


@pytest.mark.parametrize(("given", "kind", "words"), [
    ({"ids": [1]}, TypeError, r"ids: not in a cluster: put it into the filter, such as filter='id in \(7\) and version == 3'"),
    ({"filter": "year == 1", "if_": "year == 1"}, TypeError, "if_: not in a cluster"), ({"filter": "year == 1", "if_epoch": 1}, TypeError, "if_epoch: not in"),
    ({"filter": "year == 1", "incarnation": 1}, TypeError, "incarnation: not in a cluster"), ({}, TypeError, "filter: give it as text"),
    ({"filter": nearfield.F.year == 1}, TypeError, "filter: give it as text"),
    ({"filter": "year == 1", "attributes": {"yaer": 1}}, ValueError, r"attributes\['yaer'\]: .*did you mean year"),
    ({"filter": "year == 1", "attributes": {"year": "x"}}, TypeError, r"attributes\['year'\]: 'x'"),
    ({"filter": "year == 1", "attributes": None}, TypeError, "nothing changes"), ({"filter": "year == 1", "attributes": [{}]}, TypeError, "one value each"),
])
def test_what_a_cluster_cannot_change_is_refused(given, kind, words):
    calls: Any = Calls()
    with pytest.raises(kind, match=words):
        ClusterCollection(calls, "docs").update(**{"attributes": {"year": 1}, **given})
    assert not calls.committed


def test_the_attributes_of_a_cluster_are_fixed(tmp_path):
    docs = ClusterCollection(Calls(), "docs")  # type: ignore[arg-type]
    for call in (lambda: docs.add_attribute("status", str), lambda: docs.drop_attribute("year")):
        with pytest.raises(nearfield.Unimplemented, match="are fixed: create another collection"):
            call()
    with Client(str(tmp_path)) as client, pytest.raises(TypeError, match="'until'.*no rows of a cluster expire: delete them"):
        client.create_collection("docs", 2, metric="dot", attributes={"until": "timestamp:expires"})


# Replicas with a real server.


def update(name: str, filter: str, attributes: Any, payload: str | None = None) -> dict[str, Any]:
    return {"id": name, "kind": "update", "filter": filter, "attributes": attributes, "payload": payload}


@pytest.fixture
def filled(replica, store, rng):  # noqa: F811
    """A replica with 20 rows with the years 2000, 2001, ... and a manifest with them."""
    from nearfield.ray._segment import put_tables, tables_of
    from nearfield._sources.open import open_source
    from nearfield._sources.source import Spec

    manifest = empty()
    state = replace(manifest.collections["docs"], id="d", declared={"dim": DIM, "metric": "dot", "attributes": DECLARED})
    replica.sync(1, replace(manifest, collections={"docs": state}).encode(), 0, 1)
    shape = replica._docs("docs").info()
    columns = {"year": list(range(2000, 2020)), "tags": [["a"]] * 20}
    source = open_source(Spec(shape, attributes=columns, payloads=[b"p"] * 20), draw_vectors(rng, 20))
    operation = {"id": "one", "kind": "insert", "segments": put_tables(store.put, tables_of(shape, source.batches(), "accept"))}
    replica.stage(1, "docs", ("d", ""), operation)
    replica.apply(1, "docs", "one")
    state = replace(state, rows=[20], last="one", tail=[operation])
    return types.SimpleNamespace(replica=replica, manifest=Manifest(2, 1, 1, {"docs": state}))


def rows_of(replica: Any, **at: Any) -> Any:  # noqa: F811
    found = replica._docs("docs").fetch(range(20), attributes="*", **at)
    return found.attributes, found.payloads, found.vectors.tobytes()


def test_a_replica_applies_an_update_as_it_is_staged(filled):
    """Searches go on at the epoch before; a replica that loads the operations has the same rows."""
    replica = filled.replica  # noqa: F811
    before, pinned = rows_of(replica), replica._docs("docs").pin_epoch()
    operation = update("two", "year >= 2015", {"year": 1990, "made": 10**15, "tags": [], "price": float("inf")}, "/wA=")
    assert replica.stage(1, "docs", ("d", "one"), operation) == {"rows": 20, "changed": 5}
    assert rows_of(replica) == before
    assert replica.apply(1, "docs", "two")["rows"] == 20
    after = rows_of(replica)
    assert after[0]["year"] == [*range(2000, 2015), *[1990] * 5] and after[1] == [b"p"] * 15 + [b"\xff\0"] * 5 and after[2] == before[2]
    assert after[0]["tags"] == [["a"]] * 15 + [[]] * 5 and after[0]["price"] == [None] * 15 + [float("inf")] * 5
    assert rows_of(replica, at_epoch=pinned.epoch, incarnation=pinned.incarnation) == before
    state = filled.manifest.collections["docs"]
    again = replace(state, last="two", tail=[*state.tail, operation], id="other")  # so that it loads all operations
    replica.sync(1, replace(filled.manifest, number=3, collections={"docs": again}).encode(), 0, 1)
    assert rows_of(replica) == after


def test_an_operation_after_an_update_sees_its_values(filled):
    replica = filled.replica  # noqa: F811
    steps = [update("two", "year < 2010", {"year": 2100}), update("three", "year == 2100", {"year": None, "price": 1.0}),
             {"id": "four", "kind": "filter", "filter": "not exists(year)"}]
    last = "one"
    for operation, (rows, changed) in zip(steps, [(20, 10), (20, 10), (10, 10)], strict=True):
        assert replica.stage(1, "docs", ("d", last), operation) == {"rows": rows, "changed": changed}
        last = operation["id"]
        assert replica.apply(1, "docs", last)["rows"] == rows


@pytest.mark.parametrize(("operation", "words"), [
    (update("two", "year <", {"year": 1}), "filter_text"), (update("two", "year == 1", {"yaer": 1}), r"attributes\['yaer'\]"),
    (update("two", "year == 1", {"year": "x"}), r"attributes\['year'\]: 'x'"), (update("two", "year == 1", {}), "nothing changes"),
    (update("two", "year == 1", {"tags": ["x" * 1025]}), r"attributes\['tags'\]: 1025 bytes"), (update("two", "year == 1", {}, "?"), "base64|padding"),
    (update("two", "year == 1", [1]), "attributes: with filter= one value each"),
])
def test_staging_finds_values_that_rows_cannot_have(filled, operation, words):
    error = error_of(filled.replica.stage, 1, "docs", ("d", "one"), operation)
    assert isinstance(error, nearfield.InvalidArgument)
    with pytest.raises(nearfield.InvalidArgument, match=words):
        raise error
    assert not filled.replica._server.ended.is_set() and filled.replica._staged is None


def test_an_update_that_the_server_refuses_at_last_does_not_end_it(filled):
    """Only the server sees that the attributes of a row become too large."""
    replica = filled.replica  # noqa: F811
    operation = update("two", "year == 2000", {"tags": ["x" * 1000] * 100})
    replica.stage(1, "docs", ("d", "one"), operation)
    before = rows_of(replica)
    assert isinstance(error_of(replica.apply, 1, "docs", "two"), nearfield.InvalidArgument)
    assert not replica._server.ended.is_set() and rows_of(replica) == before
