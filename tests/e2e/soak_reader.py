"""A reader of test_soak.py: makes calls of every kind and compares the answers with a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import numpy as np
from calls import Api
from crash_model import DIM
from test_crash import Actor, Finding

CALL_S = 120


class Reader:
    """Checks answers of every kind against the models of the actors."""

    def __init__(self, actors: list[Actor], seed) -> None:
        self.actors = actors
        self.rng = np.random.default_rng(seed)
        self.later: list[tuple] = []  # answers of epochs whose call is not acknowledged yet
        self.acked = 0

    def step(self, api: Api) -> None:
        actor = self.actors[int(self.rng.integers(len(self.actors)))]
        kind = str(self.rng.choice(["one", "batch", "stream", "all", "filter", "scan", "verify", "count"]))
        getattr(self, kind)(api, actor)
        self.acked += 1

    def queries(self, count: int) -> np.ndarray:
        return self.rng.standard_normal((count, DIM), dtype=np.float32)

    def expect(self, actor: Actor, epoch: int, found: object, expected: Callable[[dict, object], object], what: str) -> None:
        """Compares with what `expected(rows, state)` returns for the state of that epoch."""
        state = actor.history.get(epoch)
        if state is None:
            self.later.append((actor, epoch, found, expected, what))
        elif found != (right := expected(state.rows, state)):
            raise Finding("wrong", f"{what} of {actor.name} at epoch {epoch}: {found} instead of {right}")

    def settle(self) -> None:
        """Checks the answers whose epochs are known now; forgets those of epochs before the kept ones."""
        later, self.later = self.later, []
        for actor, epoch, *rest in later:
            if epoch in actor.history:
                self.expect(actor, epoch, *rest)
            elif epoch > actor.state.epoch:
                raise Finding("wrong", f"{actor.name} has answered at epoch {epoch}, which was never committed")

    def neighbors(self, api: Api, actor: Actor, queries: np.ndarray, replies: Iterable, k: int, what: str) -> None:
        replies = list(replies)
        results = [(reply.epoch, result) for reply in replies for result in reply.results]
        assert len(results) == len(queries)
        for query, (epoch, result) in zip(queries, results, strict=True):
            self.expect(actor, epoch, api.answer(result), lambda _, state, query=query: state.answer(actor.metric, query)[:k], what)

    def one(self, api: Api, actor: Actor) -> None:
        queries, k = self.queries(1), int(self.rng.integers(1, 50))
        self.neighbors(api, actor, queries, [api.search(actor.name, queries, k)], k, "a search")

    def batch(self, api: Api, actor: Actor) -> None:
        queries, k = self.queries(6), int(self.rng.integers(1, 20))
        self.neighbors(api, actor, queries, [api.search(actor.name, queries, k)], k, "a batch")

    def stream(self, api: Api, actor: Actor) -> None:
        queries = self.queries(4)
        requests = [api.pb.SearchRequest(collection=actor.name, queries=[api.query(query)], k=7) for query in queries]
        self.neighbors(api, actor, queries, api.server.retrieval.SearchStream(iter(requests), timeout=CALL_S), 7, "a stream")

    def all(self, api: Api, actor: Actor) -> None:
        query = self.queries(1)[0]
        search = api.pb.SearchRequest(collection=actor.name, queries=[api.query(query)], k=40)
        pages = list(api.server.retrieval.SearchAll(api.pb.SearchAllRequest(search=search), timeout=CALL_S))
        answer = [neighbor for page in pages for neighbor in api.answer(page.results[0])]
        if {page.epoch for page in pages} != {pages[0].epoch}:
            raise Finding("wrong", "pages of several epochs")
        self.expect(actor, pages[0].epoch, answer, lambda _, state: state.answer(actor.metric, query), "all pages")

    def filter(self, api: Api, actor: Actor) -> None:
        query, known = self.queries(1)[0], list(actor.state.rows)[:20]
        if not known:
            return
        ids = json.dumps(known)[1:-1]
        reply = api.search(actor.name, query, 50, filter_text=f"id in ({ids})")
        chosen = set(known)
        self.expect(actor, reply.epoch, api.answer(reply.results[0]),
                    lambda _, state: [each for each in state.answer(actor.metric, query) if each[0] in chosen][:50], "a filter")

    def scan(self, api: Api, actor: Actor) -> None:
        replies = list(api.server.retrieval.Scan(api.pb.ScanRequest(collection=actor.name), timeout=CALL_S))
        ids = [identity for reply in replies for identity in (list(reply.ids.texts) or list(reply.ids.numbers))]
        vectors = b"".join(reply.vectors.data for reply in replies)
        payloads = [payload for reply in replies for payload in reply.payloads]
        key = (lambda name: name.encode()) if actor.texts else None

        def expected(rows: dict, _: object) -> tuple:
            order = sorted(rows, key=key)
            return order, b"".join(rows[name][0].tobytes() for name in order), [rows[name][1] for name in order]

        self.expect(actor, replies[-1].epoch, (ids, vectors, payloads), expected, "a scan")

    def verify(self, api: Api, actor: Actor) -> None:
        request = api.pb.SearchRequest(collection=actor.name, queries=[api.query(self.queries(1)[0])], k=10, verify=True)
        api.server.retrieval.Search(request, timeout=CALL_S)

    def count(self, api: Api, actor: Actor) -> None:
        reply = api.server.retrieval.Count(api.pb.CountRequest(collection=actor.name), timeout=CALL_S)
        self.expect(actor, reply.epoch, reply.rows_count, lambda rows, _: len(rows), "a count")
