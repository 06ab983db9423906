"""Checks of the contract in production: digests, verified searches, the audit of live traffic,
reply logs, the scrub."""

from __future__ import annotations

import hashlib
import json
import struct
import time
from pathlib import Path

import numpy as np
import pytest

import canonical

DEADLINE_S = 60


def digest(results) -> bytes:
    """Computes SearchResponse.result_digest, written from the comment in retrieval.proto."""
    sha = hashlib.sha256(b"nearfield result digest 1")
    for result in results:
        numbers, texts = list(result.ids.numbers), list(result.ids.texts)
        count = len(result.scores)
        sha.update(struct.pack("<QQ", count, 0 if count == 0 else 2 if texts else 1))
        for number in numbers:
            sha.update(struct.pack("<Q", number))
        for text in texts:
            sha.update(struct.pack("<Q", len(text.encode())) + text.encode())
        sha.update(struct.pack(f"<{count}f", *result.scores))
    return sha.digest()


def log_lines(server, message: str) -> list[dict]:
    """Returns the lines of the server's log with this message."""
    # the server may still be writing the last line
    whole, _, _ = server.log.read_text().rpartition("\n")
    lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("message") == message]


def await_line(server, message: str, seen: int = 0) -> dict:
    """Waits until the log has more than `seen` such lines; returns the last one."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        found = log_lines(server, message)
        if len(found) > seen:
            return found[-1]
        assert server.process.poll() is None, server.log.read_text()
    raise AssertionError(f"no line {message!r} in the log")


def test_digests_agree_with_python(shared, api, rng):
    client = api(shared)
    rows = rng.standard_normal((300, 33), dtype=np.float32)
    client.create("digest-numbers", 33, "COSINE")
    client.upload("digest-numbers", [int(i) for i in rng.permutation(2**50 + np.arange(300))], rows)
    client.create("digest-texts", 33, "L2", ids="STRING")
    client.upload("digest-texts", [f"row ä {i}" for i in range(300)], rows)
    client.create("digest-none", 33, "DOT")
    for name in ("digest-numbers", "digest-texts", "digest-none"):
        for k in (1, 10, 400):
            reply = client.search(name, rows[:7], k, with_digest=True)
            assert reply.result_digest == digest(reply.results), (name, k)
            assert not client.search(name, rows[:7], k).HasField("result_digest")
    # The same rows in another collection, in other blocks: another epoch, the same digest.
    ids = list(range(300))
    client.create("digest-one", 33, "DOT")
    client.create("digest-many", 33, "DOT", scan="SCAN_CHOICE_ROWS")
    client.upload("digest-one", ids, rows)
    for begin in range(0, 300, 60):
        client.upload("digest-many", ids[begin:begin + 60], rows[begin:begin + 60])
    one, many = (client.search(name, rows[:7], 20, with_digest=True) for name in ("digest-one", "digest-many"))
    assert one.epoch != many.epoch
    assert one.result_digest == many.result_digest


def test_a_verified_search_is_answered(shared, api, rng):
    client = api(shared)
    client.create("verified", 20, "DOT")
    rows = rng.standard_normal((500, 20), dtype=np.float32)
    client.upload("verified", list(range(500)), rows)
    reply = client.search("verified", rows[:4], 9, verify=True)
    for query, result in zip(rows[:4], reply.results):
        assert client.answer(result) == canonical.best("dot", query, rows, list(range(500)), 9)


@pytest.mark.parametrize("backend", ["auto"])
def test_the_audit_of_live_traffic_finds_nothing_wrong(start, api, rng, backend):
    server = start("--backend", backend, "--audit-one-in", "1", "--audit-cpu-percent", "100")
    client = api(server)
    client.create("live", 24, "COSINE")
    rows = rng.standard_normal((2000, 24), dtype=np.float32)
    ids = list(range(2000))
    for i in range(20):
        client.upload("live", ids[100 * i:100 * i + 100], rows[100 * i:100 * i + 100])
        for _ in range(5):
            client.search("live", rng.standard_normal((3, 24), dtype=np.float32), 10, score_threshold=0.1)
        chosen = {"filter_text": "id in $1", "filter_args": [client.pb.FilterArgument(ids=client.ids(ids[:100 * i + 50]))]}
        page = client.search("live", rows[i], 7, with_cursor=True, **chosen)
        for _ in range(3):
            page = client.search("live", rows[i], 7, cursor=page.results[0].next_cursor, **chosen)
        client.search("live", rows[i], 5, with_vectors=True)
        deleted = client.pb.DeleteRequest(collection="live", ids=client.ids(ids[100 * i:100 * i + 5]))
        server.ingest.Delete(deleted, timeout=DEADLINE_S)
    assert server.terminate() == 0
    counts = log_lines(server, "audit")[-1]
    assert counts["answers_audited"] > 0
    assert counts["answers_audited"] + counts["answers_dropped"] == 200
    assert (counts["mismatches"], counts["answers_failed"]) == (0, 0)


def test_a_log_of_replies_is_verified(shared, api, nearfield, rng, tmp_path: Path):
    client = api(shared)
    client.create("logged", 12, "L2", ids="STRING")
    rows = (rng.integers(-40, 41, (200, 12)) / 8).astype(np.float32)
    client.upload("logged", [f"r{i}" for i in range(200)], rows)
    np.save(tmp_path / "queries.npy", rows[:5])
    log = tmp_path / "replies.jsonl"
    nearfield(shared, "search", "logged", "--queries", tmp_path / "queries.npy", "-k", "7", "--record", log)
    nearfield(shared, "search", "logged", "--id", "r17", "--record", log)
    assert len(log.read_text().splitlines()) == 6
    assert "verified: 6 of 6 answers" in nearfield(shared, "verify", "--replies", log).out

    # An answer that the server never gave, with a matching digest.
    line = json.loads(log.read_text().splitlines()[0])
    line["ids"][0], line["ids"][1] = line["ids"][1], line["ids"][0]
    result = client.pb.QueryResult(ids=client.ids(line["ids"]))
    result.scores.extend(struct.unpack("<f", bytes.fromhex(bits)[::-1])[0] for bits in line["score_bits"])
    line["digest"] = digest([result]).hex()
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(json.dumps(line) + "\n")
    found = nearfield(shared, "verify", "--replies", wrong, code=1).out
    assert "MISMATCH: 0 of 1" in found and "line 1" in found
    line["digest"] = "00" * 32
    wrong.write_text(json.dumps(line) + "\n")
    assert "does not fit its digest" in nearfield(shared, "verify", "--replies", wrong, code=1).out

    # The collection changes: replies are not checkable, and never counted as equal.
    client.upload("logged", ["new"], rows[:1] + np.float32(1))
    summary = nearfield(shared, "verify", "--replies", log, "--json", code=1).json[-1]
    assert (summary["answers_checked"], summary["not_checkable"]) == (0, 6)


def test_the_scrub_compares_what_is_resident(start, api, rng, tmp_path: Path):
    """The running server reports a block that is damaged on the disk and continues to serve it from
    memory."""
    data = tmp_path / "data"
    server = start("--data-dir", str(data), "--scrub-interval-s", "1")
    client = api(server)
    client.create("kept", 16, "DOT")
    rows = rng.standard_normal((1000, 16), dtype=np.float32)
    client.upload("kept", list(range(1000)), rows)
    seen = len(log_lines(server, "scrub"))
    counts = await_line(server, "scrub", seen)
    assert (counts["rows"] % 1000, counts["mismatches"]) == (0, 0)
    assert not (data / "audit").exists()

    segment = next(data.glob("*.seg"))
    with segment.open("r+b") as file:
        file.seek(-100, 2)
        byte = file.read(1)[0]
        file.seek(-100, 2)
        file.write(bytes([byte ^ 4]))
    told = await_line(server, "a collection could not be compared with the data directory")
    assert segment.name in told["error"] and told["collection"] == "kept"
    assert client.answer(client.search("kept", rows[:1], 5, verify=True).results[0]) == canonical.best(
        "dot", rows[0], rows, list(range(1000)), 5)
