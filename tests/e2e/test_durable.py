"""Commits that a client saw acknowledged survive a kill of the process: rows, ids, payloads,
epochs, score bits."""

from __future__ import annotations

import threading

import grpc
import numpy as np
import pytest
from conftest import damage
from google.rpc import error_details_pb2
from grpc_status import rpc_status


def rows_of(rng, count: int, dim: int = 16) -> np.ndarray:
    return rng.standard_normal((count, dim), dtype=np.float32)


@pytest.fixture
def lives(start, api, tmp_path):
    """lives() -> an Api of a server on the same data directory; the previous server is killed
    first."""
    servers: list = []

    def next_life(*arguments: str):
        if servers:
            servers[-1].kill()
        servers.append(start("--data-dir", str(tmp_path / "kept"), *arguments))
        return api(servers[-1])

    return next_life


def snapshot(client, name: str, queries) -> tuple:
    reply = client.search(name, queries, 100, with_payload=True)
    return (reply.epoch, [client.answer(result) for result in reply.results],
            [list(result.payloads) for result in reply.results])


def upload(client, name: str, mode: str, ids: list, rows: np.ndarray, token: bytes | None = None):
    blocks = [client.block(ids, rows)] if ids else []
    return client.send(client.begin(name, max(1, len(ids)), mode=mode, token=token), *blocks, client.commit())[-1].committed


def test_everything_committed_survives_a_kill(lives, refused, rng):
    client = lives()
    assert client.create("a", 16, "COSINE").durable
    client.create("names", 16, ids="STRING")
    rows, queries = rows_of(rng, 700), rows_of(rng, 3)
    client.upload("a", list(range(700)), rows, [b"payload %d" % i for i in range(700)])
    client.upload("names", [f"n{i}" for i in range(50)], rows[:50])
    replaced = upload(client, "a", "UPSERT", [5, 9000, 5, 6], rows_of(rng, 4))
    assert (replaced.epoch, replaced.rows_count, replaced.rows_replaced) == (2, 3, 2)
    pb = client.pb
    deleted = client.server.ingest.Delete(pb.DeleteRequest(collection="a", ids=client.ids(list(range(100, 300)))))
    assert (deleted.epoch, deleted.rows_deleted) == (3, 200)
    before = [snapshot(client, name, queries) for name in ("a", "names")]
    for _ in range(2):
        client = lives()
        assert [snapshot(client, name, queries) for name in ("a", "names")] == before
        verdict = client.server.admin.Verify(pb.VerifyRequest(collection="a", query=client.query(queries[0]), k=50))
        assert verdict.equal, verdict.explanation
    # The server continues where it was: epochs, ids in use, ids that are free again.
    assert upload(client, "a", "INSERT", [100], rows_of(rng, 1)).epoch == 4
    refused(grpc.StatusCode.ALREADY_EXISTS, lambda: upload(client, "a", "INSERT", [5], rows_of(rng, 1)))
    assert upload(client, "a", "REPLACE", [1, 2], rows[:2]).rows_replaced == 502
    client.server.admin.DropCollection(pb.DropCollectionRequest(name="names"))
    client = lives()
    infos = client.server.admin.ListCollections(pb.ListCollectionsRequest()).collections
    assert [(info.name, info.epoch, info.rows_count) for info in infos] == [("a", 5, 2)]


def test_an_upload_with_a_token_goes_on_after_a_kill_and_is_committed_once(lives, refused, rng):
    client = lives()
    pb = client.pb
    client.create("a", 16)
    rows = rows_of(rng, 600)
    blocks = [client.block(list(range(at, at + 200)), rows[at:at + 200]) for at in (0, 200, 400)]
    head = pb.UploadRequest(begin=pb.UploadBegin(collection="a", rows_max=600, payload_bytes_max=0, upload_token=b"t-1"))
    # After a stream without a commit its blocks stay, and nothing is visible.
    with pytest.raises(grpc.RpcError):
        client.send(head, *blocks[:2])
    state = client.server.ingest.GetUpload(pb.GetUploadRequest(collection="a", upload_token=b"t-1"))
    assert (state.committed, state.next_block, state.rows_count) == (False, 2, 400)
    client = lives()
    assert client.server.retrieval.Count(pb.CountRequest(collection="a")).rows_count == 0
    replies = client.send(head, blocks[2], client.commit(600))
    accepted = replies[0].accepted
    assert (accepted.next_block, accepted.rows_received) == (2, 400)
    assert (replies[-1].committed.epoch, replies[-1].committed.rows_count) == (1, 600)
    # A repeated commit returns the same answer and makes no second commit.
    client = lives()
    again = client.send(head)
    assert (again[-1].committed.epoch, again[-1].committed.rows_count) == (1, 600)
    assert client.server.ingest.GetUpload(pb.GetUploadRequest(collection="a", upload_token=b"t-1")).committed
    assert client.search("a", rows[:1], 1).epoch == 1
    refused(grpc.StatusCode.NOT_FOUND, lambda: client.server.ingest.GetUpload(pb.GetUploadRequest(collection="a", upload_token=b"other")))


def test_a_token_of_another_mode_is_refused_and_other_collections_have_their_own(lives, refused, rng):
    """Regression: a committed token was answered with Committed for any collection, which
    acknowledged rows that were stored nowhere; later it was refused for every other one."""
    client = lives()
    pb = client.pb
    client.create("a", 16)
    client.create("b", 16)
    rows = rows_of(rng, 2)
    upload(client, "a", "INSERT", [1, 2], rows, b"done")
    with pytest.raises(grpc.RpcError):  # without a commit
        client.send(client.begin("a", 2, token=b"open"), client.block([3, 4], rows))
    for token in (b"done", b"open"):
        refused(grpc.StatusCode.FAILED_PRECONDITION, lambda: upload(client, "a", "UPSERT", [7], rows[:1], token), "upload_token")
        assert upload(client, "b", "UPSERT", [7], rows[:1], token).rows_count == 1
    refused(grpc.StatusCode.INVALID_ARGUMENT, lambda: upload(client, "a", "INSERT", [3], rows[:1], b"open"),
            "begin.rows_max: 1, but the upload of this token has 2 rows already")
    drop = lambda token: client.server.ingest.DropUpload(pb.DropUploadRequest(collection="a", upload_token=token))  # noqa: E731
    refused(grpc.StatusCode.FAILED_PRECONDITION, lambda: drop(b"done"), "committed", "epoch 1")
    refused(grpc.StatusCode.INVALID_ARGUMENT, lambda: drop(b""), "upload_token: absent")
    assert drop(b"open").rows_count == 2
    refused(grpc.StatusCode.NOT_FOUND, lambda: drop(b"open"), "upload_token")
    assert upload(client, "a", "INSERT", [3], rows[:1], b"open").epoch == 2
    assert upload(client, "a", "INSERT", [1, 2], rows, b"done").epoch == 1
    assert client.server.retrieval.Count(pb.CountRequest(collection="b")).epoch == 2


def test_a_transient_refusal_names_its_retry_delay_in_every_form(start, api):
    """Regression: gRPC's own retries and stock libraries did not recognize the name of the hint."""
    client = api(start("--uploads-max", "1"))
    pb = client.pb
    client.create("a", 16)
    begin = client.begin("a", 1)
    done = threading.Event()

    def hold():
        yield begin
        done.wait(60)

    held = client.server.ingest.Upload(hold(), timeout=60)
    assert next(held).HasField("accepted")
    with pytest.raises(grpc.RpcError) as caught:
        client.send(begin)
    done.set()
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    trailers = dict(caught.value.trailing_metadata())
    assert trailers["grpc-retry-pushback-ms"] == "1000"
    retry = error_details_pb2.RetryInfo()
    assert any(detail.Unpack(retry) for detail in rpc_status.from_call(caught.value).details)
    assert retry.retry_delay.ToMilliseconds() == 1000
    held.cancel()


def test_an_abandoned_upload_is_listed_until_it_is_dropped(lives, refused, rng):
    """Regression: an upload whose stream had stopped kept its upload slot and its disk space, and
    no call listed it."""
    client = lives()
    pb = client.pb
    client.create("a", 16)
    with pytest.raises(grpc.RpcError):  # without a commit
        client.send(client.begin("a", 1000, token=b"left"), client.block([3, 4], rows_of(rng, 2)))
    listed = client.server.ingest.ListUploads(pb.ListUploadsRequest())
    assert [(each.upload_token, each.collection, each.rows_count, each.is_live) for each in listed.uploads] == [
        (b"left", "a", 2, False)]
    assert listed.uploads_count == 1 and 0 < listed.uploads[0].bytes_on_disk < 1 << 20
    assert client.server.ingest.DropUpload(pb.DropUploadRequest(collection="a", upload_token=b"left")).rows_count == 2
    assert client.server.ingest.ListUploads(pb.ListUploadsRequest()).uploads_count == 0
    refused(grpc.StatusCode.INVALID_ARGUMENT,
            lambda: client.server.ingest.ListUploads(pb.ListUploadsRequest(uploads_max=10001)), "uploads_max = 10001")


def test_a_second_server_may_not_have_the_same_directory(lives, offline, tmp_path):
    lives()
    second = offline("--listen", "127.0.0.1:0", "--backend", "cpu", "--data-dir", tmp_path / "kept")
    assert second.returncode == 2
    assert str(tmp_path / "kept") in second.stderr


def test_a_damaged_file_is_named_and_never_a_shorter_answer(lives, refused, tmp_path, rng):
    client = lives()
    client.create("whole", 16)
    client.create("hurt", 16)
    for name in ("whole", "hurt"):
        client.upload(name, list(range(400)), rows_of(rng, 400))
    client.server.kill()
    segment = sorted((tmp_path / "kept").glob("*.seg"))[-1]
    damage(segment)
    client = lives()
    assert client.search("whole", rows_of(rng, 1), 3).epoch == 1
    refused(grpc.StatusCode.DATA_LOSS, lambda: client.search("hurt", rows_of(rng, 1), 3), segment.name)
    info = client.server.admin.GetCollection(client.pb.GetCollectionRequest(name="hurt")).collection
    assert segment.name in info.error


def test_what_a_collection_scans_survives_a_restart(lives, rng):
    client = lives()
    pb = client.pb
    client.create("a", 48, scan="SCAN_CHOICE_INT8")
    rows = rng.standard_normal((1200, 48), dtype=np.float32)
    client.upload("a", list(range(1200)), rows)
    for _ in range(2):
        info = client.server.admin.GetCollection(pb.GetCollectionRequest(name="a")).collection
        assert info.scan == pb.SCAN_CHOICE_INT8
        reply = client.search("a", rows[5:6], 10)
        assert reply.cost.scan_precision == pb.SCAN_PRECISION_INT8
        client = lives()


def test_a_score_threshold_ends_the_answer(lives, rng):
    client = lives()
    client.create("a", 16)
    rows = rows_of(rng, 300)
    client.upload("a", list(range(300)), rows)
    query = rows_of(rng, 1)
    whole = client.answer(client.search("a", query, 300).results[0])
    threshold = float(np.uint32(whole[20][1]).view(np.float32))
    cut = client.answer(client.search("a", query, 300, score_threshold=threshold).results[0])
    assert cut == whole[:21]
