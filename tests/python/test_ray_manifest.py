"""The manifests of nearfield.ray.Cluster as files: formats, damage, and the tokens of earlier commits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nearfield
import pytest
import xxhash

pytest.importorskip("pyarrow")
pytest.importorskip("ray")

from nearfield.ray._manifest import (  # noqa: E402
    CollectionState,
    Done,
    Manifest,
    ManifestLog,
    newest_manifest,
)

# A file that was written before manifests had a format number.
FORMAT_1 = (
    b'{"term":3,"number":7,"layout":1,"shards":2,"collections":{"docs":{"id":"cccc","created":1,"declared":{"dim":6,'
    b'"metric":"dot"},"rows":[10,0],"last":"two","pages":[],"tail":[{"id":"two","kind":"filter","filter":"year < 2020"}'
    b']}},"tokens":{"95ddbed6d7f00bd68361":[7,4,0,1,"64c88313"]}}'
)
NAME = "manifests/00000003-000000000007.json"


@pytest.fixture
def manifest() -> Manifest:
    tail = [{"id": "two", "kind": "filter", "filter": "year < 2020"}]
    state = CollectionState("cccc", 1, {"dim": 6, "metric": "dot"}, [10, 0], "two", [], tail)
    return Manifest(3, 7, 1, 2, {"docs": state}, {"95ddbed6d7f00bd68361": [7, 4, 0, 1, "64c88313"]})


def test_a_manifest_of_the_first_format_is_read(store, manifest):
    store.put(NAME, FORMAT_1)
    found = newest_manifest(store)
    log = [ManifestLog(store, "docs", "address") for _ in range(4)][-1]
    assert found == manifest and log.done(found, "monday", "docs", "filter") == (7, 4, 0, 1)
    log.append(replace(found, term=log.term, number=8))  # in the present format
    assert newest_manifest(store) == replace(manifest, term=log.term, number=8)


def test_a_manifest_of_the_second_format_is_read(store, manifest):
    """It has no updates."""
    body = manifest.encode().partition(b"\n")[2]
    store.put(NAME, b'{"format":2,"xxh64":"%s"}\n' % xxhash.xxh64_hexdigest(body).encode() + body)
    assert newest_manifest(store) == manifest


def test_a_manifest_of_a_later_format_is_refused(store, manifest):
    """An unknown member was a TypeError."""
    store.put(NAME, manifest.encode().replace(b'"format":3', b'"format":4'))
    with pytest.raises(nearfield.FailedPrecondition, match=f"{NAME}: it has the format 4; .* formats 1 to 3"):
        newest_manifest(store)


def test_a_damaged_byte_of_a_manifest_is_found(store, manifest):
    """A flipped digit was another number of rows, or another commit."""
    data = manifest.encode()
    damaged = [data[:end] for end in range(len(data))]
    for place in range(len(data)):
        for bit in range(8):
            damaged.append(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
    for each in damaged:
        with pytest.raises((nearfield.DataLoss, nearfield.FailedPrecondition), match=NAME):
            Manifest.decode(each, NAME)
    store.put(NAME, damaged[-1])
    with pytest.raises(nearfield.DataLoss, match=f"{NAME}: it is damaged: its checksum differs"):
        newest_manifest(store)
    assert Manifest.decode(data, NAME) == manifest


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"7", b"\xff", FORMAT_1[:-1], FORMAT_1.replace(b'"rows"', b'"lines"')])
def test_a_file_that_is_no_manifest_is_named(store, data):
    store.put(NAME, data)
    with pytest.raises(nearfield.DataLoss, match=f"{NAME}: it is damaged"):
        newest_manifest(store)


@pytest.mark.parametrize("other", [{"term": 2}, {"number": 6}])
def test_a_manifest_under_the_name_of_another_one_is_refused(store, manifest, other):
    """A file that was put back from a backup would be the newest one."""
    written = replace(manifest, **other)
    for data in (written.encode(), FORMAT_1.replace(b'"term":3,"number":7', b'"term":%d,"number":%d' % (written.term, written.number))):
        store.put(NAME, data)
        with pytest.raises(nearfield.DataLoss, match=f"{NAME}: it is damaged: it has the contents of {written.object_name}"):
            newest_manifest(store)


def test_a_coordinator_reports_a_manifest_that_it_cannot_read(store, monkeypatch):
    """The error names the file, and the claim of the next coordinator does not hide it."""
    from nearfield.ray import _coordinator, _server
    from nearfield.ray._fleet import Fleet

    store.put(NAME, FORMAT_1[:-1])
    made: Any = object.__new__(_coordinator.CoordinatorProcess)
    Fleet.__init__(made, _server.Settings("fake", 1, 1, store.uri, "", "", 1, 0, {}, 1.0, 4096))
    made._address, made._commits_from = "127.0.0.1:1", 0.0
    for _ in range(2):
        with pytest.raises(nearfield.DataLoss) as failed:
            made._open()
        made._note(failed.value)
        with pytest.raises(nearfield.Unavailable, match=f"{NAME}: it is damaged"):
            made.status()
