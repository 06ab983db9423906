"""Tests of filters, of waiting for an epoch and of pages, compared with a model in Python and the
reference ranking in canonical.py."""

from __future__ import annotations

import random
import threading

import attributes
import canonical
import grpc
import numpy as np
import pytest

INVALID = grpc.StatusCode.INVALID_ARGUMENT
FAILED = grpc.StatusCode.FAILED_PRECONDITION
DIM = 8


class Library:
    """A collection with attributes, and its expected content."""

    def __init__(self, client, name: str, rng: np.random.Generator) -> None:
        self.client = client
        self.pb = client.pb
        self.name = name
        self.rng = rng
        self.draw = random.Random(int(rng.integers(2**32)))
        self.vectors: dict[int, np.ndarray] = {}
        self.rows: dict[int, dict] = {}

    def upload(self, ids: list[int], mode: str = "UPSERT", blocks: int = 2) -> int:
        """Uploads new rows with these ids; returns the epoch."""
        requests = [self.client.begin(self.name, len(ids), mode=mode)]
        if mode == "REPLACE":
            self.rows, self.vectors = {}, {}
        for part in np.array_split(np.array(ids), min(blocks, len(ids))):
            part_ids = [int(each) for each in part]
            vectors = self.rng.integers(-2, 3, (len(part_ids), DIM)).astype(np.float32)
            rows = [attributes.draw_row(self.draw) for _ in part_ids]
            request = self.client.block(part_ids, vectors)
            request.block.attributes.extend(attributes.columns(self.pb, rows))
            requests.append(request)
            self.rows.update(zip(part_ids, rows))
            self.vectors.update(zip(part_ids, vectors))
        return self.client.send(*requests, self.client.commit())[-1].committed.epoch

    def passing(self, tree: tuple) -> list[int]:
        return sorted(identity for identity, row in self.rows.items() if attributes.passes(tree, row, identity))

    def filter(self, tree: tuple) -> dict:
        """Returns the fields of a request with this filter."""
        return attributes.to_fields(self.pb, tree, self.draw)

    def best(self, query: np.ndarray, ids: list[int], k: int) -> list[tuple[object, int]]:
        if not ids:
            return []
        return canonical.best("dot", query, np.stack([self.vectors[each] for each in ids]), ids, k)

    def query(self) -> np.ndarray:
        return self.rng.integers(-3, 4, DIM).astype(np.float32)

    def check(self, searches: int) -> None:
        """Random filtered searches and counts equal the model's. Verify confirms the last search."""
        retrieval, admin = self.client.server.retrieval, self.client.server.admin
        for _ in range(searches):
            tree = attributes.draw_filter(self.draw, list(self.vectors) + [10**9])
            ids, query, k = self.passing(tree), self.query(), self.draw.randint(1, 40)
            reply = self.client.search(self.name, query, k, **self.filter(tree), attributes=["*"])
            assert self.client.answer(reply.results[0]) == self.best(query, ids, k), tree
            self.check_attributes(reply.results[0].ids.numbers, reply.results[0].attributes)
            assert reply.results[0].matched_rows == len(ids)
            count = retrieval.Count(self.pb.CountRequest(collection=self.name, **self.filter(tree)), timeout=60)
            assert (count.rows_count, count.epoch) == (len(ids), reply.epoch)
        verdict = admin.Verify(self.pb.VerifyRequest(
            collection=self.name, query=self.client.query(query), k=k, **self.filter(tree), epoch=reply.epoch,
            claim=self.pb.QueryResult(ids=reply.results[0].ids, scores=reply.results[0].scores)), timeout=60)
        assert verdict.equal and verdict.rows_checked == len(ids)

    def check_attributes(self, ids, columns, names=tuple(attributes.TYPES)) -> None:
        """The returned values are the uploaded ones: repr distinguishes -0 from 0, too."""
        assert [each.attribute for each in columns] == list(names)
        expected = [{name: self.rows[each][name] for name in names if name in self.rows[each]} for each in ids]
        assert repr(attributes.rows_of(columns, len(ids))) == repr(expected)

    def fetch(self, ids: list[int], names: list[str]):
        return self.client.server.retrieval.Fetch(self.pb.FetchRequest(
            collection=self.name, ids=self.client.ids(ids), attributes=names), timeout=60)

    def delete(self, tree: tuple) -> None:
        ids = self.passing(tree)
        reply = self.client.server.ingest.Delete(
            self.pb.DeleteRequest(collection=self.name, **self.filter(tree)), timeout=60)
        assert reply.rows_deleted == len(ids)
        for identity in ids:
            del self.rows[identity], self.vectors[identity]


@pytest.fixture
def library(api, rng):
    """library(server, name) -> a new Library on the server"""
    def make(server, name: str = "library") -> Library:
        client = api(server)
        info = client.create(name, DIM, attributes=attributes.specs(client.pb))
        assert [each.name for each in info.attributes] == list(attributes.TYPES)
        return Library(client, name, rng)
    return make


def test_filters_choose_what_the_contract_says(start, library):
    books = library(start("--data-dir", "none"))
    books.upload(list(range(400)))
    books.check(40)
    books.upload(list(range(300, 500)))  # attributes are replaced with their rows
    books.check(25)
    books.delete(("or", [("exists", "price"), ("comparison", "year", "LESS", 2020)]))
    books.check(25)
    books.upload(list(range(0, 200, 3)), "REPLACE")
    books.check(25)


def test_attributes_survive_a_kill(start, library, api, tmp_path):
    kept = str(tmp_path / "kept")
    server = start("--data-dir", kept)
    books = library(server)
    books.upload(list(range(300)))
    books.upload(list(range(200, 350)))
    books.delete(("list_any", "tags", ["de"]))
    server.kill()
    books.client = api(start("--data-dir", kept))
    info = books.client.server.admin.GetCollection(books.pb.GetCollectionRequest(name=books.name)).collection
    assert list(info.attributes) == attributes.specs(books.pb)
    books.check(30)
    books.upload(list(range(340, 400)))
    books.check(10)


def test_rows_come_back_with_their_attributes(start, library, api, refused, tmp_path):
    kept = str(tmp_path / "kept")
    server = start("--data-dir", kept)
    books = library(server)
    books.upload(list(range(300)))
    books.upload(list(range(100, 200)))
    found = books.fetch([150, 7, 1000, 299], ["tags", "price"])
    books.check_attributes(list(found.ids.numbers), found.attributes, ("price", "tags"))
    assert list(found.ids.numbers) == [150, 7, 299] and not books.fetch([7], []).attributes
    refused(INVALID, lambda: books.fetch([7], ["price", "colour"]), "attributes[1]", "colour")
    server.kill()
    books.client = api(start("--data-dir", kept))
    found = books.fetch(list(range(300)), ["*"])
    books.check_attributes(list(found.ids.numbers), found.attributes)


def test_bad_attributes_and_filters_are_named(start, library, refused):
    books = library(start("--data-dir", "none"))
    pb, client = books.pb, books.client
    books.upload([1, 2])

    def send(column) -> None:
        block = client.block([7], np.ones((1, DIM), dtype=np.float32))
        block.block.attributes.append(column)
        client.send(client.begin(books.name, 1), block, client.commit())

    refused(INVALID, lambda: send(pb.AttributeColumn(attribute="colour")), "block.attributes[0]", "colour")
    refused(INVALID, lambda: send(pb.AttributeColumn(
        attribute="year", values=pb.AttributeValues(double_values=[1.0]))), "block.attributes[0]", "double")
    refused(INVALID, lambda: client.search(books.name, np.ones(DIM), filter_text=""), "filter_text: column 1")
    words = pb.FilterArgument(values=pb.AttributeValues(keyword_values=["x"]))
    refused(INVALID, lambda: client.search(books.name, np.ones(DIM), filter_text="year == $1", filter_args=[words]), "column 9: $1: a keyword, year is an int64")
    refused(INVALID, lambda: client.search(books.name, np.ones(DIM), filter_text="exists(year) and yeer == 1"), "filter_text: column 18", "yeer")
    refused(INVALID, lambda: client.search(books.name, np.ones(DIM), filter_args=[words]), "filter_args: 1 given without filter_text")
    count = client.server.retrieval.Count(pb.CountRequest(collection=books.name), timeout=60)
    assert count.rows_count == 2, "what was refused left nothing"
    refused(INVALID, lambda: client.create("twice", 4, attributes=[attributes.specs(pb)[0]] * 2), "attributes[1].name")


def test_attribute_memory_is_bounded(start, library, refused):
    books = library(start("--data-dir", "none", "--attribute-memory-bytes", "100KiB"))
    refused(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: books.upload(list(range(20000))), "attribute_memory_bytes")
    books.rows, books.vectors = {}, {}
    books.upload(list(range(100)))
    books.check(5)
    capacity = books.client.server.admin.GetCapacity(books.pb.GetCapacityRequest())
    assert 0 < capacity.attribute_bytes_used <= capacity.attribute_bytes_total == 100 * 1024


def test_min_epoch_waits_for_what_was_written(start, library, refused):
    books = library(start("--data-dir", "none"))
    first = books.upload(list(range(10)))
    client, pb = books.client, books.pb
    retrieval = client.server.retrieval
    assert client.search(books.name, np.ones(DIM), min_epoch=first).epoch == first
    waiting = threading.Barrier(4)
    seen: list[int] = []

    def wait(call) -> None:
        waiting.wait()
        seen.append(call().epoch)

    calls = [lambda: client.search(books.name, np.ones(DIM), min_epoch=first + 1),
             lambda: retrieval.Count(pb.CountRequest(collection=books.name, min_epoch=first + 1), timeout=60),
             lambda: retrieval.Fetch(pb.FetchRequest(collection=books.name, ids=client.ids([3]), min_epoch=first + 1), timeout=60)]
    threads = [threading.Thread(target=wait, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    waiting.wait()
    books.upload([99])
    for thread in threads:
        thread.join(60)
    assert seen == [first + 1] * 3
    late = pb.SearchRequest(collection=books.name, queries=[client.query(np.ones(DIM))], min_epoch=first + 5)
    refused(FAILED, lambda: in_time(lambda: retrieval.Search(late, timeout=1)), f"epoch {first + 1}", str(first + 5))
    refused(FAILED, lambda: in_time(lambda: retrieval.Count(
        pb.CountRequest(collection=books.name, min_epoch=first + 5), timeout=1)), "min_epoch")


def in_time(call):
    """Repeats a call while its answer comes too late because the server got no CPU for a tenth of a
    second."""
    for _ in range(10):
        try:
            return call()
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
    raise AssertionError("never in time")


def pages(books: Library, query: np.ndarray, k: int, tree: tuple | None = None) -> tuple[list, list[int]]:
    """Returns all pages joined, and their epochs. Commits happen between the pages."""
    found, epochs, cursor = [], [], None
    while True:
        reply = books.client.search(books.name, query, k, **({"cursor": cursor} if cursor else {"with_cursor": True}),
                                    **(books.filter(tree) if tree else {}))
        result = reply.results[0]
        found += books.client.answer(result)
        epochs.append(reply.epoch)
        if not result.HasField("next_cursor"):
            return found, epochs
        cursor = result.next_cursor
        books.upload(list(range(len(epochs) * 7, len(epochs) * 7 + 20)))
        books.delete(("has_id", [books.draw.randint(0, 300) for _ in range(10)]))


def test_pages_are_one_order_whatever_is_committed_meanwhile(start, library):
    books = library(start("--data-dir", "none", "--k-max", "64"))
    books.upload(list(range(300)))
    for _ in range(3):
        query, tree = books.query(), attributes.draw_filter(books.draw, list(books.vectors))
        whole = books.best(query, sorted(books.vectors), len(books.vectors))
        found, epochs = pages(books, query, 41)
        assert found == whole and len(set(epochs)) == 1 and len(epochs) >= len(whole) // 41
        books.check(3)
        chosen = books.best(query, books.passing(tree), len(books.vectors))
        found, epochs = pages(books, query, 17, tree)
        assert found == chosen and len(set(epochs)) == 1


def test_cursors_are_checked(start, library, refused):
    books = library(start("--data-dir", "none", "--cursor-ms", "2000", "--page-rows-max", "50"))
    books.upload(list(range(300)))
    client, query = books.client, books.query()
    reply = client.search(books.name, query, 30, with_cursor=True)
    cursor = reply.results[0].next_cursor
    again = client.search(books.name, query, 30, cursor=cursor)
    assert len(again.results[0].scores) == 20 and not again.results[0].HasField("next_cursor"), "no page goes beyond 50 rows"
    assert again.results[0].cut, "and says so"
    refused(INVALID, lambda: client.search(books.name, query + 1, 30, cursor=cursor), "cursor: of another search")
    refused(INVALID, lambda: client.search(books.name, query, 30, cursor=cursor, score_threshold=0.0), "cursor: of another search")
    refused(INVALID, lambda: client.search(books.name, query, 30, cursor=cursor[:-1]), "cursor: 24 bytes")
    books.upload([1000])
    def gone() -> bool:
        try:
            client.search(books.name, query, 30, cursor=cursor)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.FAILED_PRECONDITION and "epoch 1 is kept no longer" in error.details()
            return True
        return False

    assert not gone(), "asked for in time"
    released = threading.Event()
    released.wait(3)  # no request uses the epoch meanwhile
    assert gone()


def test_all_rows_above_a_score_arrive_in_pages(start, library, refused):
    books = library(start("--data-dir", "none", "--k-max", "64", "--page-rows-max", "100"))
    books.upload(list(range(700)))
    client, pb, query = books.client, books.pb, books.query()
    retrieval = client.server.retrieval
    tree = ("not", [("exists", "year")])

    def everything(results_max: int | None = None, **more) -> list:
        search = pb.SearchRequest(collection=books.name, queries=[client.query(query)], **more)
        replies = list(retrieval.SearchAll(pb.SearchAllRequest(search=search, results_max=results_max), timeout=60))
        assert len({reply.epoch for reply in replies}) == 1
        return [found for reply in replies for found in client.answer(reply.results[0])]

    whole = books.best(query, sorted(books.vectors), 700)
    assert everything() == whole
    assert everything(results_max=131, k=10) == whole[:131]
    least = float(np.array([whole[200][1]], dtype=np.uint32).view(np.float32)[0])
    assert everything(score_threshold=least) == [
        found for found in whole if np.array([found[1]], dtype=np.uint32).view(np.float32)[0] >= least]
    assert everything(**books.filter(tree)) == books.best(query, books.passing(tree), 700)
    refused(INVALID, lambda: everything(results_max=0), "results_max = 0, must be at least 1")
    two = pb.SearchRequest(collection=books.name, queries=[client.query(query)] * 2)
    refused(INVALID, lambda: list(retrieval.SearchAll(pb.SearchAllRequest(search=two))), "search.queries = 2")
    stream = retrieval.SearchAll(pb.SearchAllRequest(search=pb.SearchRequest(
        collection=books.name, queries=[client.query(query)], k=1)), timeout=60)
    next(iter(stream))
    stream.cancel()
    books.check(2)
