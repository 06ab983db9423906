"""Bad input is refused with the right status and a message that names field, value and limit; it
changes nothing."""

from __future__ import annotations

import math

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def filled(shared, api, request):
    """A collection of 3 rows of dimension 8, one for each test."""
    client = api(shared)
    name = "r" + str(abs(hash(request.node.name)))
    client.create(name, 8, "COSINE")
    client.upload(name, [1, 2, 3], np.eye(3, 8, dtype=np.float32))
    client.name = name
    return client


@pytest.mark.parametrize(("vector", "k", "words"), [
    (np.ones(7), 5, ["7", "8"]),
    (np.ones(9), 5, ["9", "8"]),
    (np.full(8, math.nan), 5, ["queries[0]"]),
    (np.array([1, 2, 3, math.inf, 0, 0, 0, 0]), 5, ["queries[0]"]),
    (np.zeros(8), 5, ["queries[0]", "all values are 0"]),
    (np.ones(8), 0, ["k", "0", "4096"]),
    (np.ones(8), 4097, ["k", "4097", "4096"]),
])
def test_a_bad_query_is_refused(filled, refused, vector, k, words):
    refused(INVALID, lambda: filled.search(filled.name, vector, k), *words)


def test_a_request_without_queries_is_refused(filled, refused):
    request = filled.pb.SearchRequest(collection=filled.name)
    refused(INVALID, lambda: filled.server.retrieval.Search(request), "queries")


def test_unknown_names_and_ids_are_not_found(filled, refused):
    pb = filled.pb
    refused(grpc.StatusCode.NOT_FOUND, lambda: filled.search("nowhere", np.ones(8)), "nowhere")
    by_id = pb.SearchRequest(collection=filled.name, queries=[pb.Query(row_id=pb.Id(number=77))])
    refused(grpc.StatusCode.NOT_FOUND, lambda: filled.server.retrieval.Search(by_id), "77")
    refused(grpc.StatusCode.NOT_FOUND, lambda: filled.upload("nowhere", [1], np.ones((1, 8), dtype=np.float32)), "nowhere")
    wrong_type = pb.SearchRequest(collection=filled.name, queries=[pb.Query(row_id=pb.Id(text="x"))])
    refused(INVALID, lambda: filled.server.retrieval.Search(wrong_type), "id")


def test_a_score_threshold_that_is_no_number_is_refused(filled, refused):
    call = lambda: filled.search(filled.name, np.ones(8), 3, score_threshold=float("nan"))  # noqa: E731
    refused(INVALID, call, "score_threshold")


def test_an_upload_mode_that_is_none_is_refused(filled, refused):
    pb = filled.pb
    begin = pb.UploadRequest(begin=pb.UploadBegin(collection=filled.name, mode=9, rows_max=1, payload_bytes_max=0))
    refused(INVALID, lambda: filled.send(begin), "begin.mode = 9")


@pytest.mark.parametrize("case", ["dim", "nan", "dtype", "id type", "too many", "no begin", "no rows_max", "wrong total"])
def test_a_bad_upload_is_refused_and_leaves_nothing(filled, refused, case):
    pb, good = filled.pb, np.ones((2, 8), dtype=np.float32)
    bad = good.copy()
    bad[1, 5] = math.nan
    begin, commit = filled.begin(filled.name, 2), filled.commit()
    requests = {
        "dim": [begin, filled.block([10, 11], np.ones((2, 7), dtype=np.float32)), commit],
        "nan": [begin, filled.block([10, 11], bad), commit],
        "dtype": [begin, filled.block([10, 11], good.astype(np.float16)), commit],
        "id type": [begin, filled.block(["a", "b"], good), commit],
        "too many": [begin, filled.block([10, 11, 12], np.ones((3, 8), dtype=np.float32)), commit],
        "no begin": [filled.block([10, 11], good), commit],
        "no rows_max": [pb.UploadRequest(begin=pb.UploadBegin(collection=filled.name, payload_bytes_max=0)), commit],
        "wrong total": [begin, filled.block([10], good[:1]), filled.commit(2)],
    }[case]
    refused(INVALID, lambda: filled.send(*requests))
    count = filled.server.retrieval.Count(pb.CountRequest(collection=filled.name))
    assert (count.rows_count, count.epoch) == (3, 1)


@pytest.mark.parametrize("ids", [[5, 6, 5], [9, 2, 8]])
def test_duplicate_ids_are_refused(filled, refused, ids):
    call = lambda: filled.upload(filled.name, ids, np.ones((3, 8), dtype=np.float32))  # noqa: E731
    refused(grpc.StatusCode.ALREADY_EXISTS, call, "5" if ids[0] == 5 else "2")
    assert filled.server.retrieval.Count(filled.pb.CountRequest(collection=filled.name)).rows_count == 3


def test_an_upload_that_cannot_fit_is_refused_before_its_first_row(filled, refused):
    call = lambda: filled.send(filled.begin(filled.name, 2**32 - 10))  # noqa: E731
    refused(grpc.StatusCode.RESOURCE_EXHAUSTED, call, "free")


@pytest.mark.parametrize(("name", "dim", "metric"), [
    ("", 8, "DOT"), ("../x", 8, "DOT"), ("a b", 8, "DOT"), ("x" * 64, 8, "DOT"), ("-x", 8, "DOT"),
    ("zero-dim", 0, "DOT"), ("big-dim", 8193, "DOT"), ("no-metric", 8, "UNSPECIFIED")])
def test_a_bad_collection_is_refused(filled, refused, name, dim, metric):
    refused(INVALID, lambda: filled.create(name, dim, metric))


@pytest.mark.parametrize(("scan", "rows", "words"), [
    (77, 1, ["scan = 77"]), (-1, 1, ["scan = -1"]), (1, 77, ["rows = 77"]), (4, 2, ["scan: ROWS", "rows is HOST"])])
def test_a_bad_scan_choice_is_refused(filled, refused, scan, rows, words):
    refused(INVALID, lambda: filled.create("bad-scan", 8, scan=scan, rows=rows), *words)


def test_a_taken_name_is_refused(filled, refused):
    refused(grpc.StatusCode.ALREADY_EXISTS, lambda: filled.create(filled.name, 8), filled.name)


def test_an_oversized_message_is_refused_and_the_server_goes_on(start, api, refused):
    server = start("--request-bytes-max", "1MiB")
    client = api(server)
    client.create("big", 8)
    limits = server.retrieval.GetLimits(client.pb.GetLimitsRequest())
    assert limits.request_bytes_max == 2**20
    with pytest.raises(grpc.RpcError) as caught:
        client.search("big", np.ones((40_000, 8)))
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    client.upload("big", [1], np.ones((1, 8), dtype=np.float32))
    assert len(client.search("big", np.ones(8)).results[0].scores) == 1


def test_a_reply_beyond_the_limit_is_refused_with_advice(start, api, refused):
    server = start("--response-bytes-max", "64KiB", "--payload-bytes-max", "32KiB")
    client = api(server)
    client.create("wide", 64)
    client.upload("wide", list(range(3000)), np.ones((3000, 64), dtype=np.float32))
    call = lambda: client.search("wide", np.ones((4, 64)), 3000)  # noqa: E731
    refused(grpc.StatusCode.RESOURCE_EXHAUSTED, call, "SearchStream")


def test_stock_libraries_decode_the_details_of_a_refusal(filled):
    """Regression: programs had to parse the message to learn which field was refused."""
    with pytest.raises(grpc.RpcError) as caught:
        filled.search(filled.name, np.ones(8), 4097)
    status = rpc_status.from_call(caught.value)
    assert status is not None
    bad, info = error_details_pb2.BadRequest(), error_details_pb2.ErrorInfo()
    for detail in status.details:
        detail.Unpack(bad)
        detail.Unpack(info)
    assert [(each.field, each.description) for each in bad.field_violations] == [("k", "4097, must be 1 .. 4096")]
    assert info.domain == "nearfield" and info.reason == "INVALID_ARGUMENT"
    assert dict(info.metadata) == {"field": "k", "value": "4097", "limit": "1 .. 4096"}
