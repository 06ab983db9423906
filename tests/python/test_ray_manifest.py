"""The manifests of nearfield.ray.Cluster as objects: formats, damage, and storages of earlier versions."""

from __future__ import annotations

import shutil
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import nearfield
import pytest
import xxhash

pytest.importorskip("pyarrow")
pytest.importorskip("ray")

from nearfield.ray._log import Log, digest_of, newest_manifest, newest_number, object_name  # noqa: E402
from nearfield.ray._manifest import TAIL_MAX, CollectionState, Done, Manifest, operations_after  # noqa: E402
from nearfield.ray._steps import run  # noqa: E402
from nearfield.ray._store import Store  # noqa: E402
from nearfield.ray._tokens import TOKENS_MAX, Tokens, folded  # noqa: E402
from nearfield.ray._upgrade import earlier_manifest, take_over  # noqa: E402

# A file that was written before manifests had a format number.
FORMAT_1 = (
    b'{"term":3,"number":7,"layout":1,"shards":2,"collections":{"docs":{"id":"cccc","created":1,"declared":{"dim":6,'
    b'"metric":"dot"},"rows":[10,0],"last":"two","pages":[],"tail":[{"id":"two","kind":"filter","filter":"year < 2020"}'
    b']}},"tokens":{"95ddbed6d7f00bd68361":[7,4,0,1,"64c88313"]}}'
)
EARLIER = "manifests/00000003-000000000007.json"
NAME = object_name(7)


@pytest.fixture
def manifest() -> Manifest:
    tail = [{"id": "two", "kind": "filter", "filter": "year < 2020"}]
    state = CollectionState("cccc", 1, {"dim": 6, "metric": "dot"}, [10, 0], "two", [], tail)
    return Manifest(7, 1, 2, {"docs": state}, {"95ddbed6d7f00bd68361": [7, 4, 0, 1, "64c88313"]})


def earlier(manifest: Manifest, made: int) -> bytes:
    """Returns a manifest in the format 2 or 3, which had terms."""
    body = manifest.encode().partition(b"\n")[2].replace(b',"author":"","previous":""', b"").replace(b',"before":[]', b"").replace(b"{", b'{"term":3,', 1)
    checksum = xxhash.xxh64_hexdigest(body if made == 2 else b"3" + body)
    return b'{"format":%d,"xxh64":"%s"}\n' % (made, checksum.encode()) + body


@pytest.mark.parametrize("made", [1, 2, 3])
def test_a_storage_of_an_earlier_format_is_continued(store, manifest, made):
    store.put("terms/00000003-aaaa.json", b"{}")
    store.put("manifests/00000002-000000000009.json", b"of a lower term")
    store.put(EARLIER, FORMAT_1 if made == 1 else earlier(manifest, made))
    assert earlier_manifest(store) == manifest == take_over(store)
    log = Log("author")
    run(log.open(manifest), store=store)
    assert log.head == replace(manifest, number=8, author="author") == newest_manifest(store)
    done = run(log.commit("docs", {"kind": "filter"}, "monday", None), store=store, fleet=types.SimpleNamespace(load=lambda: None))
    assert done == (7, 4, 0, 1)
    # An earlier version does this before it starts, and before it acknowledges a commit.
    with pytest.raises(ValueError, match="taken"):
        int(store.list("terms")[-1].rpartition("/")[2].partition("-")[0])


def test_a_storage_without_a_cluster_has_no_manifest(store):
    assert earlier_manifest(store) is take_over(store) is newest_manifest(store) is None
    assert store.list("terms") == []


def test_a_manifest_of_a_later_format_is_refused(store, manifest):
    """An unknown member was a TypeError."""
    store.put(NAME, manifest.encode().replace(b'"format":4', b'"format":5'))
    with pytest.raises(nearfield.FailedPrecondition, match=f"{NAME}: it has the format 5; .* formats 1 to 4"):
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


@pytest.mark.parametrize("data", [b"{}", b"[]", b"7", b"\xff", FORMAT_1[:-1], FORMAT_1.replace(b'"rows"', b'"lines"')])
def test_a_file_that_is_no_manifest_is_named(store, data):
    for name, read in ((NAME, newest_manifest), (EARLIER, earlier_manifest)):
        store.put(name, data)
        with pytest.raises(nearfield.DataLoss, match=f"{name}: it is damaged"):
            read(store)


def test_a_manifest_under_the_name_of_another_one_is_refused(store, manifest):
    """A file that was put back from a backup would be the newest one."""
    other = replace(manifest, number=6)
    for name, data, read in ((NAME, other.encode(), newest_manifest), (EARLIER, earlier(other, 3), earlier_manifest)):
        store.put(name, data)
        with pytest.raises(nearfield.DataLoss, match=f"{name}: it is damaged: it has the number 6"):
            read(store)


def test_a_manifest_that_was_exchanged_is_found(store, manifest):
    """Its successor names it, to the bit."""
    store.put(NAME, manifest.encode())
    log = Log("author")
    run(log.find(), store=store)
    following = replace(manifest, number=8, previous=digest_of(manifest.encode()))
    store.put(object_name(8), following.encode())
    run(log.follow(), store=store)
    assert log.head == following
    store.put(object_name(9), replace(following, number=9).encode())
    with pytest.raises(nearfield.DataLoss, match=f"{object_name(9)}: it does not follow the manifest before it"):
        run(log.follow(), store=store)


def test_a_coordinator_reports_a_manifest_that_it_cannot_read(store):
    """The error names the file."""
    from nearfield.ray import _coordinator, _server
    from nearfield.ray._fleet import Fleet

    store.put(NAME, FORMAT_1[:-1])
    made: Any = object.__new__(_coordinator.CoordinatorProcess)
    Fleet.__init__(made, _server.Settings("fake", 1, 1, store.uri, "", "", 1, 0, {}, 1.0, 4096))
    made._address = "127.0.0.1:1"
    for _ in range(2):
        with pytest.raises(nearfield.DataLoss) as failed:
            made._open()
        made._note(failed.value)
        with pytest.raises(nearfield.Unavailable, match=f"{NAME}: it is damaged"):
            made.status()


def test_a_storage_without_an_atomic_put_if_absent_is_refused_by_name(store, monkeypatch):
    """On such a store two coordinators could both acknowledge the manifest of one number."""
    store.probe()

    def put_new(self: Store, name: str, data: bytes) -> bool:
        self.put(name, data)
        return True

    monkeypatch.setattr(Store, "put_new", put_new)
    with pytest.raises(nearfield.FailedPrecondition, match=f"storage: {store.name}: of 8 concurrent writes .* 8 succeeded, must be 1"):
        store.probe()
    monkeypatch.setattr(Store, "put_new", lambda *_: False)
    with pytest.raises(nearfield.FailedPrecondition, match="0 succeeded"):
        store.probe()
    assert store.list("probes") == []


@pytest.mark.parametrize("uri", ["s3://bucket/x?nonsense=1", "ftp://host/x", "s3://key:secret@bucket/x?regions=a"])
def test_a_wrong_uri_is_named_without_its_keys(uri):
    with pytest.raises(ValueError, match="storage: (s3://bucket/x|ftp://host/x): ") as failed:
        Store(uri)
    assert "secret" not in str(failed.value)


def test_a_folder_that_is_gone_is_no_empty_folder(store):
    """As a share that is no longer mounted: a fresh read would find that there is no newer manifest."""
    path = Path(store.uri.removeprefix("file://"), "commits")
    path.rename(path.with_name("gone"))
    with pytest.raises(OSError, match="commits"):
        run(newest_number(1), store=store)
    with pytest.raises(OSError, match="commits"):
        store.put_new(object_name(1), b"1")


def test_a_folder_that_comes_and_goes_hides_no_object(store):
    """A read either finds the object, or fails: it never says that there is none."""
    store.put(object_name(1), b"1")
    path, enough = Path(store.uri.removeprefix("file://"), "commits"), threading.Event()
    gone = path.with_name("gone")

    def come_and_go():
        while not enough.is_set():
            path.rename(gone)
            path.write_text("in the way")
            path.unlink()
            gone.rename(path)

    found, failed = set(), 0
    with ThreadPoolExecutor(1) as pool:
        mover = pool.submit(come_and_go)
        while failed < 50 and not mover.done():  # done: it failed
            for read in (store.find, lambda name: store.first("commits") and b"1"):
                try:
                    found.add(read(object_name(1)))
                except OSError:
                    failed += 1
        enough.set()
        mover.result()
    assert found <= {b"1"}
    assert (store.find(object_name(1)), store.find(object_name(2)), store.list("commits")) == (b"1", None, [object_name(1)])


def test_a_folder_below_the_mount_point_is_not_the_storage(store):
    """A start without the share made the folders on the local disk: later, while the share was away, a fresh read found
    no newer manifest there, and a commit went there."""
    store.put(object_name(1), b"1")
    root = Path(store.uri.removeprefix("file://"))
    away = root.with_name("away")
    root.rename(away)
    Store(store.uri).prepare()
    for call in (lambda: store.find(object_name(1)), lambda: store.first("commits"), lambda: store.put(object_name(2), b"2"),
                 lambda: store.put_new(object_name(2), b"2"), lambda: store.list("segments")):  # fmt: skip
        with pytest.raises(OSError, match="another folder is in the place of the storage"):
            call()
    shutil.rmtree(root)
    shutil.copytree(away, root)  # another folder, but the same storage
    assert store.put_new(object_name(2), b"2") and store.list("commits") == [object_name(2), object_name(1)]


def test_a_storage_without_an_identity_gets_one(store):
    """As those of an earlier version have none. Readers that run go on."""
    root = Path(store.uri.removeprefix("file://"))
    (root / "storage.id").unlink()
    reader = Store(store.uri)
    assert reader.find(object_name(1)) is None
    Store(store.uri).prepare()
    Store(store.uri).prepare()
    root.rename(root.with_name("away"))
    shutil.copytree(root.with_name("away"), root)
    assert reader.find(object_name(1)) is store.find(object_name(1)) is None


def test_a_manifest_stays_small(store):
    """Its size is bounded, whatever the number of commits, and no operation is lost."""
    tokens, manifest = Tokens(), Manifest(collections={"docs": CollectionState("c", 1, {"dim": 6, "metric": "dot"}, [0, 0])})
    segment = {"name": "segments/" + 32 * "a", "rows": 10, "index": [100_000, 1_000, 16 * "b"]}
    count = 4 * TAIL_MAX + 3
    for number in range(count):
        state = run(folded(manifest.collections["docs"], f"{number}"), store=store)
        operation = {"id": f"{number:032}", "kind": "insert", "segments": [segment]}
        state = replace(state, last=operation["id"], tail=[*state.tail, operation])
        done = Done(number, 10, 0, 1)
        manifest = run(tokens.added(manifest.with_state("docs", state), f"{number}" * 100, "docs", "insert", done, f"{number}"), store=store)
    assert len(manifest.tokens) <= TOKENS_MAX and len(manifest.encode()) < 115_000
    state = Manifest.decode(manifest.encode()).collections["docs"]
    assert (state.count, len(state.pages)) == (count, 4)
    for last in ("", f"{0:032}", f"{TAIL_MAX:032}", state.tail[0]["id"], state.last):
        after = run(operations_after(state, last), store=store)
        assert after is not None and len(after) == count - (1 + int(last) if last else 0)
    assert run(operations_after(state, "another"), store=store) is None
    store.put(state.pages[0][0], b"[]")
    with pytest.raises(nearfield.DataLoss, match="checksum"):
        run(operations_after(state, ""), store=store)
