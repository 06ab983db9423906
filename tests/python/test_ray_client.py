"""The client of nearfield.ray.Cluster with a coordinator and servers that are not real: its views, and what it does if
a server is late, slow or fails."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import nearfield
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield._results import Hits, SearchResult  # noqa: E402
from nearfield.ray import Client, ClusterCollection  # noqa: E402
from nearfield.ray._merge import merge_hits  # noqa: E402
from nearfield.ray._rpc import serve  # noqa: E402


def test_the_views_of_a_client_never_go_back(tmp_path):
    """An old coordinator, or an answer that was delayed, does not replace a newer view."""
    with Client(str(tmp_path)) as client:
        seen = []
        shown = [("a", 5, 7), ("b", 1, 8), ("a", 9, 7), ("b", 3, 9), ("b", 2, 9), ("b", 2, 8), ("c", 1, 9), ("c", 1, 10)]
        views = [{"have": [coordinator, serial], "number": number, "shards": []} for coordinator, serial, number in shown]
        for view in views:
            client.call = lambda *_, view=view, **__: view  # type: ignore[method-assign,misc]
            found = client._refresh(float("inf"), 0.0)
            seen.append((*found["have"], found["number"]))
        assert seen == [shown[place] for place in (0, 1, 1, 3, 3, 3, 6, 7)]


def test_a_client_that_finds_no_turn_to_wait_does_not_spin(tmp_path):
    """The coordinator lets some calls wait for a manifest, and answers the others at once."""
    calls = itertools.count()
    with Client(str(tmp_path)) as client:
        client.call = lambda *_, **__: next(calls) and None or view_of(1)  # type: ignore[method-assign]
        client._number_min = 2
        with pytest.raises(nearfield.DeadlineExceeded, match="manifest 2"):
            client._current(time.monotonic() + 0.5)
    assert next(calls) < 20


def test_the_names_of_collections_never_go_back(tmp_path):
    """They are those of a view, which has the client's own commits: another coordinator may know fewer."""
    shown = [{**view_of(number), "collections": dict.fromkeys(names)} for number, names in ((1, "b"), (1, "b"), (3, "cab"), (2, "ab"))]
    views = iter(shown)
    with Client(str(tmp_path)) as client:
        client.call = lambda *_, **__: next(views)  # type: ignore[method-assign]
        assert client.list_collections() == ["b"]
        client._number_min = 3
        assert client.list_collections() == client.list_collections() == ["a", "b", "c"]


def test_an_error_of_the_callers_rows_is_not_one_of_the_storage(store):
    def tables() -> Any:
        yield pa.table({"id": pa.array([1], pa.uint64())})
        raise FileNotFoundError("my rows")

    with Client(store.uri) as client:
        with pytest.raises(FileNotFoundError, match="my rows"):
            client.put(tables())
        Path(store.uri.removeprefix("file://"), "segments").rename(Path(store.uri.removeprefix("file://"), "gone"))
        with pytest.raises(nearfield.Unavailable, match="storage: "):
            client.put([pa.table({"id": pa.array([1], pa.uint64())})])


def test_a_client_needs_no_ray(tmp_path):
    code = f"import sys; sys.modules['ray'] = None\nfrom nearfield.ray import Client\nClient({str(tmp_path)!r}).close()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_client_leaves_a_coordinator_that_does_not_answer(store):
    """Its machine has vanished, so that nothing refuses its connections."""
    hung = threading.Event()
    addresses = [serve({"status": each}, "127.0.0.1") for each in (hung.wait, dict)]
    with Client(store.uri) as client:
        for opened, (_, address) in enumerate(addresses, 1):
            store.put("coordinators/a.json", json.dumps({"name": "a", "cluster": None, "opened": opened, "address": address}).encode())
            if opened == 1:
                with pytest.raises(nearfield.DeadlineExceeded):
                    client.call("status", 0.3)
        assert client.call("status", 20) == {}
    hung.set()


def view_of(number: int, *addresses: str) -> dict[str, Any]:
    replicas = [{"address": each, "states": {"docs": {"epoch": 1, "incarnation": 1}}} for each in addresses]
    return {"have": [1, number], "number": number, "collections": {"docs": {}}, "shards": [replicas]}


def test_a_server_that_is_late_is_asked_last(store):
    """Else the searches of a busy client would all come to wait for it. Also when commits change the view."""
    view = view_of(1, "good", "hung")
    asked: list[str] = []
    ended = threading.Event()

    def ask(view: Any, shard: int, docs: Any, at: Any, left: float) -> int:
        asked.append(docs)
        if docs == "hung":
            ended.wait(left)
        return 1

    with Client(store.uri, timeout=20) as client:
        serial = itertools.count(1)
        client.call = lambda *_, **__: {**view, "have": [1, next(serial)]}  # type: ignore[method-assign]
        client._shard_calls._server = lambda address: types.SimpleNamespace(collection=lambda _: address)  # type: ignore[assignment,method-assign]
        for _ in range(100):
            client.read("docs", None, True, ask, lambda _: range(1))
        ended.set()
    assert asked.count("hung") == 1


def read_from(client: Client, views: Any, ask: Any, fresh: bool) -> Any:
    """Returns what a read of one shard returns. views: of the coordinator, one after the other."""
    client.call = lambda *_, **__: next(views)  # type: ignore[method-assign]
    client._shard_calls._server = lambda address: types.SimpleNamespace(collection=lambda _: address)  # type: ignore[assignment,method-assign]
    return client.read("docs", None, fresh, ask, lambda _: range(1))[1]


@pytest.mark.parametrize("before", [["hung", "failed"], ["hung"]])
def test_a_late_server_does_not_hold_a_search_if_the_next_view_has_another(store, before):
    """The other replica failed, or came after the search began. The late one may never answer."""
    shown = [view_of(1, *before), *[view_of(2, "hung", "good")] * 99]
    for fresh in (True, False) * 2:  # which replica is asked first is random
        ended = threading.Event()

        def ask(view: Any, shard: int, docs: Any, at: Any, left: float, ended=ended) -> str:
            if docs == "hung":
                ended.wait(left)
            if docs == "failed":
                raise nearfield.FailedPrecondition("the epoch is gone")
            return docs

        with Client(store.uri, timeout=20) as client:
            begin = time.monotonic()
            assert read_from(client, iter(shown), ask, fresh) == ["good"]
            assert time.monotonic() - begin < 10
            ended.set()


@pytest.mark.parametrize("other", [[], ["down"]])
@pytest.mark.parametrize("commits", [False, True])
def test_a_slow_server_is_not_asked_again_and_again(store, monkeypatch, other, commits):
    """Also next to one that fails, and while commits change the view: it would become slower."""
    monkeypatch.setattr("nearfield.ray._shard_calls.HEDGE_SECONDS", 0.05)
    asked: list[str] = []

    def ask(view: Any, shard: int, docs: Any, at: Any, left: float) -> str:
        asked.append(docs)
        if docs == "down":
            raise nearfield.Unavailable("it is down")
        threading.Event().wait(0.5)
        return docs

    views = (view_of(number if commits else 1, "slow", *other) for number in itertools.count(1))
    with Client(store.uri, timeout=20) as client:
        assert read_from(client, views, ask, False) == ["slow"]
    assert asked.count("slow") <= (2 if other and commits else 1)


def answer_of(queries: Any) -> SearchResult:
    cost: Any = types.SimpleNamespace(total_us=0)
    return SearchResult(tuple(queries), 1, 1, cost)


@pytest.mark.parametrize("text", [False, True])
def test_merged_hits_are_those_of_all_rows(rng, text):
    """The queries have different numbers of hits, and scores are equal; payloads follow their rows."""
    for _ in range(30):
        shards, queries, k = int(rng.integers(2, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 9))
        expected: list[list[tuple[float, Any, bytes]]] = [[] for _ in range(queries)]
        parts = []
        for shard in range(shards):
            found = []
            for query in range(queries):
                numbers = rng.permutation(100)[: rng.integers(0, k + 1)] * shards + shard
                ids = [f"z{each}" if each % 2 else f"ü{each}" for each in numbers] if text else numbers.tolist()
                scores = rng.choice(np.array([-np.inf, -2.5, -1e-40, 0, 1e-40, 1, np.inf], np.float32), len(ids))
                rows = sorted(zip((-scores).tolist(), ids, strict=True))
                mine = [each for _, each in rows] if text else np.array([each for _, each in rows], np.uint64)
                found.append(Hits(mine, [str(each).encode() for _, each in rows], None, (),
                                  np.array([-score for score, _ in rows], np.float32), matched_rows=len(rows)))
                expected[query] += [(score, each, str(each).encode()) for score, each in rows]
            parts.append(answer_of(found))
        merged = merge_hits(parts, [part.to_numpy() for part in parts], k, True)
        for hits, rows in zip(merged, expected, strict=True):
            best = sorted(rows)[:k]
            assert list(hits.ids) == [each for _, each, _ in best]
            assert hits.scores.tolist() == [-score for score, _, _ in best]
            assert hits.payloads == [payload for *_, payload in best]
            assert hits.matched_rows == len(rows)


@pytest.mark.parametrize("option", [{}, {"score_threshold": 0.0}])
def test_a_list_that_is_too_short_is_refused(option):
    """Rows that one of them lacks may come before rows of another. With a threshold there may be fewer."""
    hits = Hits(np.arange(2, dtype=np.uint64), [], None, (), scores=np.ones(2, np.float32))
    docs = types.SimpleNamespace(_search_prepared=lambda *_, **__: answer_of([hits]))
    view = {"number": 1, "collections": {"docs": {"rows": [3], "created": 1}}}
    client: Any = types.SimpleNamespace(read=lambda name, timeout, fresh, ask: (view, [ask(view, 0, docs, {}, 1.0)]))
    search = ClusterCollection(client, "docs").search
    if option:
        assert search(np.ones(2), k=5, **option).ids.tolist() == [0, 1]
    else:
        with pytest.raises(nearfield.DataLoss, match=r"\[2\] rows of 3, k = 5"):
            search(np.ones(2), k=5)


def client_of(coordinator: Any, meanwhile: Any) -> Any:
    """Returns a client of a coordinator that is no process. meanwhile: called when a delete has written its ids."""

    def read(name: str, *_: Any) -> Any:
        view = coordinator.view()
        if name not in view["collections"]:
            raise nearfield.NotFound(name)
        return view, []

    def commit(name: str, operation: Any, token: Any, _: Any, created: Any = None) -> Any:
        return coordinator.commit(name, operation, token, created)

    def put(_: Any) -> list[Any]:
        meanwhile()
        return []

    return types.SimpleNamespace(read=read, commit=commit, put=put, deadline=lambda _: time.monotonic() + 30)


def create_again(coordinator: Any) -> None:
    """Drops the collection docs, and creates another one."""
    coordinator.commit("docs", {"kind": "drop"}, "drop")
    for slot in coordinator._slots:
        slot.actor.rows = -1
    coordinator.commit("docs", {"kind": "create", "declared": {}}, "create")


@pytest.mark.parametrize("what", [{"ids": [1]}, {"filter": "x == 1"}])
def test_a_delete_does_not_go_into_another_collection_of_the_name(coordinator, what):
    """One that was created after the delete began: an upload was refused there, a delete was not."""
    docs = ClusterCollection(client_of(coordinator, lambda: None), "docs")
    done = docs.delete(**what, token="once")
    assert done.epoch == 2
    docs = ClusterCollection(client_of(coordinator, lambda: create_again(coordinator)), "docs")
    if "filter" in what:  # nothing is written before the commit
        view = coordinator.view()
        docs._calls.read = lambda *_: (view, [])
        create_again(coordinator)
    with pytest.raises(nearfield.Aborted, match="another one"):
        docs.delete(**what, token="another")
    assert coordinator._log.head.number == 4 and not coordinator._log.head.collections["docs"].tail
    coordinator.commit("docs", {"kind": "drop"}, "gone")
    assert docs.delete(**what, token="once") == done, "it took place before the collection was dropped"
    with pytest.raises(nearfield.NotFound):
        ClusterCollection(client_of(coordinator, lambda: None), "docs").delete(**what, token="new")


def test_searches_do_not_wait_for_each_others_threads(store):
    """More searches at a time than threads: each asks several shards, and none waits for a thread that waits."""
    view = view_of(1, "a")
    view["shards"] *= 4
    with Client(store.uri, timeout=20) as client:
        client.call = lambda *_, **__: view  # type: ignore[method-assign]
        client._shard_calls._server = lambda _: types.SimpleNamespace(collection=lambda name: name)  # type: ignore[assignment,method-assign]
        parts: list[Any] = []

        def search() -> None:
            parts.append(client.read("docs", None, True, lambda view, shard, docs, at, left: shard)[1])

        threads = [threading.Thread(target=search) for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert parts == [[0, 1, 2, 3]] * 200
