"""nearfield.open answers a search without options by an entry of its own in the library: as any
search, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nearfield
import numpy as np
import pytest
from nearfield._blocking import run
from nearfield._local_transport import LocalTransport

SMALL = {"memory_bytes": "64MiB", "host_memory_bytes": "64MiB", "backend": "cpu", "threads": 1}
DIM = 24


def ordinary_search(docs: nearfield.Collection, *arguments: Any, **options: Any) -> nearfield.SearchResult:
    """Searches by messages."""
    return run(docs._inner.search(*arguments, **options))


def outcome_of(search: Callable[..., nearfield.SearchResult], *arguments: Any, **options: Any) -> Any:
    try:
        found = search(*arguments, **options)
    except (nearfield.Error, TypeError, ValueError) as error:
        return type(error), str(error).split(" (request")[0], getattr(error, "field", None)
    ids, scores, counts = found.to_numpy()
    cost = {name: value for name, value in vars(found.cost).items() if not name.endswith("total_us") and "device" not in name}
    cost.pop("queue_us")
    hits = [(list(each.ids), each.scores.tobytes(), each.payloads, each.matched_rows, each.cut) for each in found.queries]
    return hits, list(ids), scores.tobytes(), counts.tolist(), found.epoch, found.incarnation, cost, found.digest, len(found.request_id)


@pytest.mark.parametrize("text", [False, True])
def test_a_plain_search_is_an_ordinary_one_to_the_bit(rng, monkeypatch, text):
    """The same answers, costs and errors, and the epoch of this client's own writes."""
    taken: list[int] = []
    ask = LocalTransport.search
    monkeypatch.setattr(LocalTransport, "search", lambda *arguments: (taken.append(1), ask(*arguments))[1])
    with nearfield.open(None, **SMALL) as client:
        docs = client.create_collection("docs", DIM, metric="cosine", id_type="string" if text else "uint64")
        rows = rng.integers(-3, 4, (300, DIM)).astype(np.float32)
        rows[:, 0] = 1
        zeros, bad = np.zeros(DIM, np.float32), np.full(DIM, np.nan, np.float32)
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            *(((rows[2],), {"k": k}) for k in (1, 10, 299, 300, 4000, 5000, 0, -1, 2**40, True, 2.5)),
            ((rows[2].tolist(),), {}), ((rows[2].astype(np.float64),), {}), ((rows[2].astype(np.int8),), {}),
            ((), {"vector": rows[3], "timeout": 20}), ((rows[2],), {"timeout": float("inf")}), ((rows[2],), {"timeout": 0}),
            ((rows[:9],), {"k": 7}), ((rows[::2],), {"k": 7}), ((rows[:, ::2],), {}), ((rows[2, 1:],), {}), ((zeros,), {}),
            ((bad,), {}), ((np.stack([rows[1], bad]),), {}), ((rows[:300],), {"k": 300}), (("a text",), {}), ((rows[:0],), {}),
            ((np.zeros((1, 1, DIM), np.float32),), {}), ((rows[1],), {"vector": rows[1]}), ((), {}), ((None,), {}),
            ((rows[2],), {"incarnation": 5}), ((rows[2],), {"kk": 1})]  # fmt: skip
        for begin, end in ((0, 0), (0, 5), (5, 300)):
            if end:
                ids = np.arange(begin, end, dtype=np.uint64) * 3
                docs.upload(rows[begin:end], ids=[str(each) for each in ids] if text else ids)
            for arguments, options in calls:
                expected = outcome_of(lambda *a, **o: ordinary_search(docs, *a, **o), *arguments, **options)
                assert outcome_of(docs.search, *arguments, **options) == expected, (arguments, options)
        assert len(taken) > 30
        for name in ("doc", "docs\0", "\ud800"):
            other = client.collection(name)
            found = outcome_of(other.search, rows[0])
            assert found == outcome_of(lambda *a: ordinary_search(other, *a), rows[0])
        # A collection of the same name is another one: its epochs begin again.
        client.drop_collection("docs")
        client.create_collection("docs", DIM, metric="dot")
        assert docs.search(rows[0]).to_numpy().counts.tolist() == [0]
    with pytest.raises(nearfield.Cancelled, match="not open"):
        docs.search(rows[0])


def test_a_plain_search_is_counted_audited_and_limited(rng):
    with nearfield.open(None, **SMALL, audit_one_in=1, request_bytes_max="256KiB", payload_bytes_max="64KiB") as client:
        vectors = rng.standard_normal((3000, DIM), np.float32)
        docs = client.create_collection("docs", DIM, metric="dot")
        docs.upload(vectors)
        before = client.counters()
        for vector in vectors[:5]:
            assert len(docs.search(vector)) == 10
        while not client.counters().audit["answers_audited_count"]:
            pass  # an auditor runs in the background
        calls = [each.calls_count for each in client.counters().calls if (each.method, each.status) == ("Search", "OK")]
        assert calls == [5] and not [each for each in before.calls if each.method == "Search"]
        with pytest.raises(nearfield.ResourceExhausted, match="request_bytes_max is 262144"):
            docs.search(vectors)
        with pytest.raises(nearfield.DeadlineExceeded):
            docs.search(vectors[0], timeout=1e-9)


