"""The view checks of a client of nearfield.ray: concurrent searches share them, and each search has every commit that
was acknowledged before it began."""

from __future__ import annotations

import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import nearfield
import pytest

pytest.importorskip("pyarrow")

from nearfield.ray import Client, _view_checks  # noqa: E402
from test_ray_client import view_of  # noqa: E402


class Coordinator:
    """Shows the manifest `number`. A check takes the view when it arrives; its reply waits for `replies`."""

    def __init__(self) -> None:
        self.number = 1
        self.calls = 0
        self.arrived = threading.Semaphore(0)
        self.replies = threading.Semaphore(0)
        self.fails: Exception | None = None

    def call(self, method: str, timeout: float, **_: Any) -> Any:
        assert method == "view"
        view, failed = view_of(self.number, "server"), self.fails
        self.calls += 1
        self.arrived.release()
        assert self.replies.acquire(timeout=30)
        if failed is not None:
            raise failed
        return view


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def client(coordinator, tmp_path, monkeypatch):
    """Sends one check at a time, and has the first view."""
    monkeypatch.setattr(_view_checks, "_AT_ONCE", 1)
    with Client(str(tmp_path), timeout=30) as made:
        made.call = coordinator.call  # type: ignore[assignment,method-assign]
        made._shard_calls._server = lambda _: types.SimpleNamespace(collection=lambda name: name)  # type: ignore[assignment,method-assign]
        coordinator.replies.release()
        made._current(time.monotonic() + 30)
        assert coordinator.arrived.acquire(timeout=30)
        coordinator.calls = 0
        yield made


def search(client: Client, timeout: float = 30) -> int:
    """Returns the number of the manifest of an answer."""
    view, _ = client.read("docs", timeout, True, lambda *_: None)
    return int(view["number"])


def test_a_search_does_not_use_a_check_that_was_sent_before_it_began(client, coordinator):
    """A commit in between would be missing. The check before is still under way when the second search begins."""
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(search, client)
        assert coordinator.arrived.acquire(timeout=30)
        coordinator.number = 2  # acknowledged after the check was sent, and before the second search begins
        second = pool.submit(search, client)
        coordinator.replies.release()
        assert first.result(30) == 1
        coordinator.replies.release()
        assert second.result(30) == 2
    assert coordinator.calls == 2


def test_searches_that_wait_share_a_check(client, coordinator):
    """Each one asked the coordinator, which answers 2,600 of them in a second for all clients."""
    with ThreadPoolExecutor(40) as pool:
        first = pool.submit(search, client)
        assert coordinator.arrived.acquire(timeout=30)
        joined = threading.Semaphore(0)
        join = client._checks.join

        def join_and_count(deadline: float) -> Any:
            found = join(deadline)
            joined.release()
            return found

        client._checks.join = join_and_count  # type: ignore[method-assign]
        others = [pool.submit(search, client) for _ in range(39)]
        for _ in others:
            assert joined.acquire(timeout=30)
        coordinator.number = 2  # before the check of the others is sent
        coordinator.replies.release(2)
        assert first.result(30) == 1 and [each.result(30) for each in others] == [2] * 39
    assert coordinator.calls == 2


def test_every_search_has_the_commits_before_it_began(client, coordinator, monkeypatch):
    """Also with several checks under way at a time, while commits are acknowledged all the time."""
    monkeypatch.setattr(_view_checks, "_AT_ONCE", 3)
    client._checks = _view_checks.ViewChecks(client._checks._refresh)
    coordinator.replies.release(10**6)
    stale, count = [], 40

    def run(_: int) -> None:
        for _ in range(count):
            before = coordinator.number
            found = search(client)
            if found < before:
                stale.append((before, found))

    done = threading.Event()

    def commit() -> None:
        while not done.is_set():
            coordinator.number += 1

    committing = threading.Thread(target=commit)
    committing.start()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(run, range(16)))
    done.set()
    committing.join()
    assert not stale and coordinator.calls <= 16 * count


def test_a_search_waits_no_longer_than_its_timeout_for_a_shared_check(client, coordinator):
    with ThreadPoolExecutor(2) as pool:
        patient = pool.submit(search, client, 30)
        assert coordinator.arrived.acquire(timeout=30)
        for timeout in (0.0, 0.1):
            with pytest.raises(nearfield.DeadlineExceeded):
                search(client, timeout)
        coordinator.replies.release(10)
        assert patient.result(30) == 1


def test_a_check_that_fails_fails_only_its_searches(client, coordinator):
    coordinator.fails = nearfield.Unavailable("no answer")
    with ThreadPoolExecutor(2) as pool:
        failed = pool.submit(search, client)
        assert coordinator.arrived.acquire(timeout=30)
        coordinator.fails = None
        other = pool.submit(search, client)
        coordinator.replies.release(2)
        with pytest.raises(nearfield.Unavailable, match="no answer"):
            failed.result(30)
        assert other.result(30) == 1
