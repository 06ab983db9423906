"""Collections, aliases, snapshots, limits, memory and counters through both clients."""

from __future__ import annotations

import datetime as dt

import nearfield
import numpy as np
import pytest


def test_a_collection_is_created_listed_and_dropped(client, name):
    docs = client.create_collection(
        name, 8, metric="l2", dtype="float16", id_type="string", scan="int8",
        attributes=[nearfield.Attribute("year", "int64"), nearfield.Attribute("tags", "keyword", is_list=True)],
    )
    assert docs.name == name
    docs.upload(np.eye(3, 8), ids=["a", "b", "c"])
    info = client.get_collection(name)
    assert (info.dim, info.metric, info.dtype, info.id_type, info.scan, info.rows) == (
        8, "l2", "float16", "string", "int8", "device")
    assert [(each.name, each.text) for each in info.attributes] == [("year", "int64"), ("tags", "keyword[]")]
    assert (info.rows_count, info.epoch, info.durable, info.error) == (3, 1, True, "")
    assert docs.info().incarnation == info.incarnation
    assert name in [each.name for each in client.list_collections()]
    with pytest.raises(nearfield.FailedPrecondition):
        client.drop_collection(name, incarnation=info.incarnation + 1)
    assert client.drop_collection(name) == 3
    with pytest.raises(nearfield.NotFound):
        docs.info()


def test_a_declaration_that_exists_otherwise_is_named(client, name):
    def create(**more):
        return client.create_collection(name, **{"dim": 4, "metric": "dot", "if_missing": True, **more})

    create(attributes={"a": int}).upload([[1, 2, 3, 4]], attributes={"a": [1]})
    assert create(attributes={"a": "int64"}).count().rows_count == 1
    for more, words in (
        ({"dim": 5}, "dim 4, not 5"), ({"dtype": "float16"}, "dtype float32, not float16"),
        ({"id_type": "string"}, "id_type uint64"), ({"attributes": {"b": int}}, "a:int64, b:int64"),
    ):
        with pytest.raises(nearfield.AlreadyExists, match=words):
            create(**{"attributes": {"a": int}, **more})
    for more, words in (
        ({"metric": "manhattan"}, "one of dot, cosine, l2"), ({"dtype": "int8"}, "float32, float16, bfloat16"),
        ({"attributes": {"a": "text"}}, "int64, double, bool, keyword, timestamp"), ({"scan": "bf16"}, "auto, int8, rows, int16"),
    ):
        with pytest.raises(ValueError, match=words):
            create(**more)
    with pytest.raises(TypeError, match="give dim"):
        client.create_collection(name, metric="dot")


def test_an_alias_moves_between_collections(client, name):
    for number in (1, 2):
        client.create_collection(f"{name}-{number}", 2, metric="dot").upload([[number, 0]] * number)
    alias = client.collection(name)
    assert client.set_alias(name, f"{name}-1").name == f"{name}-1"
    assert alias.count().rows_count == 1
    alias.delete([0])
    assert client.set_alias(name, f"{name}-2").aliases == (name,)
    assert alias.count().rows_count == 2  # the write went to the other collection
    assert client.drop_alias(name) == f"{name}-2"
    with pytest.raises(nearfield.NotFound):
        alias.count()


def test_snapshots_and_compaction(client, name):
    docs = client.create_collection(name, 4, metric="dot")
    docs.upload(np.ones((100, 4)))
    docs.delete(np.arange(10))  # less than a fifth, so not compacted in the background
    compacted = docs.compact(timeout=60)
    assert compacted.rows_given_back == 10 and docs.info().rows_deleted == 0
    made = client.create_snapshot(name, timeout=60)
    assert made.files_count > 0 and made.bytes > 0 and made.error == ""
    assert made.created.tzinfo is dt.timezone.utc
    assert name in [each.name for each in client.list_snapshots()]
    assert client.delete_snapshot(name).name == name
    assert name not in [each.name for each in client.list_snapshots()]


def test_limits_memory_counters_and_state(client, name):
    limits = client.limits()
    assert limits.k_max == 4096 and limits.response_bytes_max >= 1 << 20
    client.create_collection(name, 4, metric="dot").upload(np.ones((10, 4)))
    capacity = client.capacity()
    assert capacity.backend in ("cpu", "gpu") and 0 < capacity.device_bytes_used <= capacity.device_bytes_total
    counters = client.counters()
    uploads = [each for each in counters.calls if (each.method, each.status) == ("Upload", "OK")]
    assert uploads[0].rows_count >= 10 and counters.started <= dt.datetime.now(dt.timezone.utc)
    assert counters.passes["passes_count"] >= 0 and "escalations.tighter" in counters.passes
    assert client.state() == nearfield.ServerState("serving", "", {})
    assert client.health() == client.health(f"nearfield.v1.Collection/{name}") == "SERVING"


def test_a_reply_above_the_default_limit_of_grpc_is_received(client, name, rng):
    docs = client.create_collection(name, 1024, metric="dot")
    rows = rng.standard_normal((4000, 1024), dtype=np.float32)
    docs.upload(rows)
    found = docs.fetch(np.arange(4000))
    assert found.vectors.nbytes > 4 << 20 and (found.vectors == rows).all()
    with pytest.raises(nearfield.InvalidArgument, match="the server accepts"):
        docs.search(np.ones((20_000, 1024)))


def test_a_client_is_a_context_manager(shared):
    with nearfield.connect(shared.address) as client:
        assert client.health() == "SERVING"
    with pytest.raises(ValueError, match="this client is closed"):
        client.health()
