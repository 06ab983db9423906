"""Errors: one class for each code, with the facts that the server sends; and which calls are tried
again, when, and for how long."""

from __future__ import annotations

import grpc
import nearfield
import numpy as np
import pytest
from nearfield import F
from nearfield._proto import admin_pb2 as admin
from nearfield._proto import ingest_pb2 as ingest
from nearfield._proto import common_pb2 as common
from nearfield._proto import retrieval_pb2 as retrieval
from nearfield._retry import RetryPolicy
from scripted import Refusal

Code = grpc.StatusCode
BUSY = Refusal(Code.RESOURCE_EXHAUSTED, "the queue is full", retry_after_ms=300)
AWAY = Refusal(Code.UNAVAILABLE, "starting")
CLASSES = {
    Code.INVALID_ARGUMENT: nearfield.InvalidArgument, Code.NOT_FOUND: nearfield.NotFound,
    Code.ALREADY_EXISTS: nearfield.AlreadyExists, Code.FAILED_PRECONDITION: nearfield.FailedPrecondition,
    Code.RESOURCE_EXHAUSTED: nearfield.ResourceExhausted, Code.UNAVAILABLE: nearfield.Unavailable,
    Code.DEADLINE_EXCEEDED: nearfield.DeadlineExceeded, Code.CANCELLED: nearfield.Cancelled,
    Code.ABORTED: nearfield.Aborted, Code.UNIMPLEMENTED: nearfield.Unimplemented,
    Code.INTERNAL: nearfield.Internal, Code.DATA_LOSS: nearfield.DataLoss,
    Code.PERMISSION_DENIED: nearfield.PermissionDenied, Code.UNAUTHENTICATED: nearfield.Unauthenticated,
    Code.OUT_OF_RANGE: nearfield.Error,
}


@pytest.mark.parametrize("code", CLASSES)
def test_every_code_has_a_class_and_carries_the_facts(scripted, connect, code):
    facts = {"field": "queries[3].vector", "value": "3 values", "limit": "the collection has dim 384"}
    scripted.script["Count"] = [Refusal(code, "why it is refused", facts, 1500)]
    client = connect(scripted.address, retry=RetryPolicy(tries_max=1))
    with pytest.raises(nearfield.Error, match="why it is refused") as caught:
        client.collection("docs").count()
    error = caught.value
    assert type(error) is CLASSES[code] and error.code is code
    assert {"field": error.field, "value": error.value, "limit": error.limit} == facts
    assert (error.request_id, error.retry_after, error.unreachable) == ("request-1", 1.5, False)


def test_standard_python_classes_catch_the_errors():
    assert issubclass(nearfield.InvalidArgument, ValueError)
    assert issubclass(nearfield.NotFound, LookupError)
    assert issubclass(nearfield.DeadlineExceeded, TimeoutError)


def test_details_that_cannot_be_decoded_do_not_hide_the_status(scripted, connect):
    scripted.script["Count"] = [Refusal(Code.NOT_FOUND, "no such collection", details=b"\xff\xff", retry_after_ms=20)]
    with pytest.raises(nearfield.NotFound, match="no such collection") as caught:
        connect(scripted.address).collection("docs").count()
    assert (caught.value.field, caught.value.retry_after) == (None, 0.02)


def test_a_reset_after_the_final_status_does_not_hide_it(scripted, connect, clock):
    """A proxy resets the stream; gRPC then reports CANCELLED, with the metadata that the server sent."""
    not_found = Refusal(Code.NOT_FOUND, "no such collection", {"field": "collection"})
    busy = Refusal(Code.RESOURCE_EXHAUSTED, "queue full", retry_after_ms=300)
    reset = [Refusal(Code.CANCELLED, "RST_STREAM", details=each.metadata()[0][1], retry_after_ms=each.retry_after_ms) for each in (busy, not_found)]
    scripted.script["Count"] = [*reset, Refusal(Code.CANCELLED, "the caller left")]
    docs = connect(scripted.address, _clock=clock).collection("docs")
    with pytest.raises(nearfield.NotFound, match="no such collection") as caught:
        docs.count()
    assert caught.value.field == "collection" and len(clock.waits) == 1 and clock.waits[0] >= 0.3
    with pytest.raises(nearfield.Cancelled, match="the caller left"):
        docs.count()


def test_a_server_that_does_not_pack_its_answers_is_understood(scripted, connect):
    plain = retrieval.SearchResponse(epoch=3)
    for number in (7, 8):
        plain.results.add(ids={"numbers": [number]}, scores=[0.5])
    scripted.script["Search"] = [plain]
    found = connect(scripted.address).collection("docs").search([[1.0], [2.0]])
    assert [(int(each.ids[0]), float(each.scores[0])) for each in found.queries] == [(7, 0.5), (8, 0.5)]


@pytest.mark.parametrize(
    ("ids", "scores", "counts"), [(b"12345678", b"1234", b""), (b"", b"", b"\1\0\0\0"), (b"1", b"1", b"\0\0\0\0"), (b"", b"", b"1")]
)
def test_a_packed_answer_that_does_not_fit_is_refused(scripted, connect, ids, scores, counts):
    scripted.script["Search"] = [retrieval.SearchResponse(packed={"ids": ids, "scores": scores, "counts": counts})]
    with pytest.raises(nearfield.Internal, match="malformed reply"):
        connect(scripted.address).collection("docs").search([1.0])


def test_a_call_is_tried_again_after_the_time_that_the_server_names(scripted, connect, clock):
    scripted.script["Count"] = [BUSY, BUSY, AWAY, retrieval.CountResponse(rows_count=7)]
    client = connect(scripted.address, caller="me", _clock=clock)
    assert client.collection("docs").count().rows_count == 7
    assert len(clock.waits) == 3 and min(clock.waits[:2]) >= 0.3 and 0.1 <= clock.waits[2] <= 0.2
    assert {metadata["nearfield-caller"] for _, _, metadata in scripted.calls} == {"me"}


def test_waits_double_from_try_to_try_and_tries_are_limited(scripted, connect, clock):
    scripted.script["Count"] = [AWAY] * 9
    policy = RetryPolicy(tries_max=6, backoff_first=1.0, backoff_max=4.0, unavailable_max=0)
    with pytest.raises(nearfield.Unavailable):
        connect(scripted.address, retry=policy, _clock=clock).collection("docs").count(timeout=1000)
    assert scripted.methods() == ["Count"] * 6
    for wait, most in zip(clock.waits, (1, 2, 4, 4, 4), strict=True):
        assert most / 2 <= wait <= most


def test_a_wait_that_would_exceed_the_timeout_is_not_begun(scripted, connect, clock):
    scripted.script["Count"] = [BUSY] * 4
    with pytest.raises(nearfield.ResourceExhausted):
        connect(scripted.address, _clock=clock).collection("docs").count(timeout=0.5)
    assert len(clock.waits) == 1 and len(scripted.calls) == 2


@pytest.mark.parametrize("refusal", [
    Refusal(Code.RESOURCE_EXHAUSTED, "no memory"), Refusal(Code.INTERNAL), Refusal(Code.ABORTED),
    Refusal(Code.FAILED_PRECONDITION), Refusal(Code.DEADLINE_EXCEEDED),
])
def test_other_errors_are_not_tried_again(scripted, connect, clock, refusal):
    scripted.script["Count"] = [refusal] * 2
    with pytest.raises(nearfield.Error):
        connect(scripted.address, _clock=clock).collection("docs").count()
    assert len(scripted.calls) == 1 and clock.waits == []


CALLS = {
    "Search": lambda c: c.collection("d").search([1.0]),
    "Fetch": lambda c: c.collection("d").fetch([1]),
    "Count": lambda c: c.collection("d").count(),
    "Delete": lambda c: c.collection("d").delete([1]),
    "Verify": lambda c: c.collection("d").verify([1.0]),
    "Compact": lambda c: c.collection("d").compact(),
    "GetCollection": lambda c: c.get_collection("d"),
    "ListCollections": lambda c: c.list_collections(),
    "ListSnapshots": lambda c: c.list_snapshots(),
    "GetLimits": lambda c: c.limits(),
    "GetCapacity": lambda c: c.capacity(),
    "GetCounters": lambda c: c.counters(),
    "GetUpload": lambda c: c.get_upload("d", "t"),
    "ListUploads": lambda c: c.list_uploads(),
    "DropUpload": lambda c: c.drop_upload("d", "t"),
    "SearchAll": lambda c: list(c.collection("d").search_all([1.0])),
    "Scan": lambda c: list(c.collection("d").scan(attributes=())),
}
CALLED_ONCE = {
    "CreateCollection": lambda c: c.create_collection("d", 1, metric="dot"),
    "DropCollection": lambda c: c.drop_collection("d"),
    "SetAlias": lambda c: c.set_alias("a", "d"),
    "DropAlias": lambda c: c.drop_alias("a"),
    "CreateSnapshot": lambda c: c.create_snapshot("s"),
    "DeleteSnapshot": lambda c: c.delete_snapshot("s"),
    "AddAttribute": lambda c: c.collection("d").add_attribute("a", int),
    "DropAttribute": lambda c: c.collection("d").drop_attribute("a"),
    "GetServerState": lambda c: c.state(),
    "Check": lambda c: c.health(),
    "SearchStream": lambda c: list(c.collection("d").search_stream([[1.0]])),
}


@pytest.mark.parametrize("method", [*CALLS, *CALLED_ONCE])
def test_only_calls_that_can_be_repeated_safely_are_tried_again(scripted, connect, clock, method):
    scripted.script[method] = [AWAY] * 4
    with pytest.raises(nearfield.Unavailable):
        {**CALLS, **CALLED_ONCE}[method](connect(scripted.address, _clock=clock, retry=RetryPolicy(unavailable_max=0)))
    assert scripted.methods() == [method] * (4 if method in CALLS else 1)


def page(ids: list[int], cursor: bytes = b"") -> retrieval.SearchResponse:
    response = retrieval.SearchResponse(epoch=3, incarnation=5)
    result = response.results.add(scores=[1.0] * len(ids), next_cursor=cursor or None)
    result.ids.numbers.extend(ids)
    return response


def test_pages_continue_after_the_last_one(scripted, connect, clock):
    scripted.script["SearchAll"] = [[page([1, 2], b"at 2"), AWAY], AWAY, [page([3], b"at 3"), AWAY], [page([4])]]
    docs = connect(scripted.address, _clock=clock).collection("d")
    pages = list(docs.search_all([1.0], results_max=9, min_epoch=3))
    assert [each.ids.tolist() for each in pages] == [[1, 2], [3], [4]]
    sent = [retrieval.SearchAllRequest.FromString(request) for _, request, _ in scripted.calls]
    assert [each.search.cursor for each in sent] == [b"", b"at 2", b"at 2", b"at 3"]
    assert [each.results_max for each in sent] == [9, 7, 7, 6]
    assert [each.search.min_epoch for each in sent] == [3, 0, 0, 0]


def test_a_page_too_few_is_an_error(scripted, connect, clock):
    scripted.script["SearchAll"] = [[page([1], b"more")]]
    with pytest.raises(nearfield.Internal, match="ended before the last one"):
        list(connect(scripted.address, _clock=clock).collection("d").search_all([1.0]))


def test_an_answer_with_another_digest_is_refused(scripted, connect):
    good = page([1, 2])
    good.result_digest = nearfield.result_digest(
        [nearfield.Hits(np.array([1, 2], np.uint64), [], None, (), np.ones(2, np.float32))])
    wrong = page([1, 3])
    wrong.result_digest = good.result_digest
    scripted.script["Search"] = [good, wrong]
    docs = connect(scripted.address).collection("d")
    assert docs.search([1.0], with_digest=True).ids.tolist() == [1, 2]
    with pytest.raises(nearfield.DataLoss, match="digest"):
        docs.search([1.0], with_digest=True)


def test_own_writes_are_sent_with_later_reads(scripted, connect):
    scripted.script["Delete"] = [ingest.DeleteResponse(epoch=4, incarnation=9), ingest.DeleteResponse(epoch=2, incarnation=9)]
    moved = Refusal(Code.FAILED_PRECONDITION, "incarnation: 9, the collection has 10: it was created again")
    scripted.script["Count"] = [retrieval.CountResponse()] * 3 + [moved] + [retrieval.CountResponse()] * 2
    client = connect(scripted.address)
    docs = client.collection("d")
    docs.count()
    docs.delete([1])
    docs.delete([2])  # an answer that was overtaken
    docs.count()
    client.collection("d").count(min_epoch=1)
    docs.count()  # the alias was moved
    docs.count()
    sent = [retrieval.CountRequest.FromString(request) for method, request, _ in scripted.calls if method == "Count"]
    assert [(each.min_epoch, each.incarnation) for each in sent] == [(0, 0), (4, 9), (1, 0), (4, 9), (0, 0), (0, 0)]
    scripted.script["Delete"] = [ingest.DeleteResponse(epoch=4, incarnation=9)]
    scripted.script["Count"] = [retrieval.CountResponse()]
    other = connect(scripted.address, read_your_writes=False)
    other.collection("d").delete([1])
    other.collection("d").count()
    assert not retrieval.CountRequest.FromString(scripted.calls[-1][1]).HasField("min_epoch")


def info(dim: int = 2) -> admin.GetCollectionResponse:
    return admin.GetCollectionResponse(collection=admin.CollectionInfo(
        name="d", dim=dim, metric="METRIC_DOT", dtype="DATA_TYPE_FLOAT32", id_type="ID_TYPE_UINT64"))


LIMITS = common.GetLimitsResponse(upload_block_bytes_max=1 << 26, request_bytes_max=1 << 26)
ACCEPTED = ingest.UploadResponse(accepted=ingest.UploadAccepted(rows_max=3))
COMMITTED = ingest.UploadResponse(committed=ingest.UploadCommitted(epoch=1, rows_count=3))


def test_the_opening_of_an_upload_is_tried_again_and_nothing_after_it(scripted, connect, clock):
    scripted.script.update(GetLimits=[LIMITS], GetCollection=[info(), info()])
    scripted.script["Upload"] = [AWAY, BUSY, [ACCEPTED, COMMITTED], [ACCEPTED, AWAY]]
    docs = connect(scripted.address, _clock=clock).collection("d")
    assert docs.upload(np.eye(3, 2)).rows_count == 3
    assert scripted.methods().count("Upload") == 3
    with pytest.raises(nearfield.Unavailable):
        docs.upload(np.eye(3, 2))
    assert scripted.methods().count("Upload") == 4


def test_a_last_try_without_time_hid_why_the_server_was_away(scripted, connect, clock):
    """Its own error, DEADLINE_EXCEEDED, said only that no answer had come."""
    tries = [AWAY, scripted.NO_ANSWER]
    scripted.script.update(GetLimits=[LIMITS], GetCollection=[info()] * 2, Count=tries[:], Scan=tries[:], Upload=tries[:])
    docs = connect(scripted.address, _clock=clock, retry=RetryPolicy(backoff_first=9)).collection("d")
    docs.info()  # a server that has answered is waited for
    for call in (docs.count, lambda timeout: list(docs.scan(timeout=timeout)), lambda timeout: docs.upload(np.eye(3, 2), timeout=timeout)):
        with pytest.raises(nearfield.Unavailable, match="starting"):
            call(timeout=1.5)
    assert scripted.methods().count("Upload") == 2


def test_a_token_that_the_server_still_holds_is_waited_for(scripted, connect, clock):
    held = Refusal(Code.FAILED_PRECONDITION, "upload_token: in use by another stream")
    scripted.script.update(GetLimits=[LIMITS], GetCollection=[info(), info()])
    scripted.script["Upload"] = [[ACCEPTED, AWAY]] + [held] * 6 + [[COMMITTED]] + [held]
    docs = connect(scripted.address, _clock=clock).collection("d")
    assert docs.upload(np.eye(3, 2), token="t").epoch == 1
    assert min(clock.waits[1:]) >= 0.05
    with pytest.raises(nearfield.FailedPrecondition):  # another process has it
        docs.upload(np.eye(3, 2), token="t")


def test_a_server_that_is_not_there(connect, clock):
    client = connect("127.0.0.1:1", _clock=clock)
    with pytest.raises(nearfield.Unavailable) as caught:
        client.collection("d").count()
    assert caught.value.unreachable and caught.value.request_id is None
    assert len(clock.waits) == 3


def test_refusals_of_a_real_server(client, name):
    docs = client.create_collection(name, 3, metric="dot", attributes={"year": int})
    docs.upload(np.eye(3))
    missing = client.collection("no-such-collection")
    for call, kind, field in (
        (lambda: docs.search([1.0]), nearfield.InvalidArgument, "queries[0].encoded.data"),
        (lambda: docs.search([1, 2, 3], k=10**6), nearfield.InvalidArgument, "k"),
        (lambda: docs.count("year == 7") and docs.search(id=99), nearfield.NotFound, None),
        (lambda: docs.upload(np.eye(3)), nearfield.AlreadyExists, None),
        (lambda: client.create_collection(name, 3, metric="dot"), nearfield.AlreadyExists, None),
        (lambda: client.create_collection("bad name", 3, metric="dot"), nearfield.InvalidArgument, "name"),
        (lambda: missing.count(), nearfield.NotFound, None),
        (lambda: missing.upload(np.eye(3)), nearfield.NotFound, None),
        (lambda: client.drop_collection(name, only_if_empty=True), nearfield.FailedPrecondition, None),
        (lambda: docs.search([1, 2, 3], min_epoch=99, timeout=0.2), nearfield.FailedPrecondition, None),
        (lambda: docs.search([1, 2, 3], cursor=b"no cursor"), nearfield.InvalidArgument, "cursor"),
        (lambda: docs.upload(np.full((1, 3), np.inf), ids=[7]), nearfield.InvalidArgument, "block.vectors.data"),
        (lambda: docs.count(F.id.isin(["text"])), nearfield.InvalidArgument, "filter_args[0].ids.texts"),
    ):
        with pytest.raises(nearfield.Error) as caught:
            call()
        assert type(caught.value) is kind, caught.value
        assert caught.value.field == field and caught.value.request_id, caught.value
    with pytest.raises(nearfield.NotFound, match=r"no\.such\.Service"):
        client.health("no.such.Service")


def test_options_that_cannot_be_used_are_refused():
    for options, words in (
        ({"address": ""}, "host:port"), ({"address": "50051"}, "127.0.0.1:50051"), ({"address": "host:99999"}, "port 99999"),
        ({"timeout": 0}, "above 0"), ({"caller": "ä"}, "ASCII"), ({"caller": "x" * 129}, "at most 128"),
    ):
        with pytest.raises(ValueError, match=words):
            nearfield.connect(**{"address": "127.0.0.1:1", **options})
    with pytest.raises(ValueError, match="tries_max"):
        RetryPolicy(tries_max=0)
