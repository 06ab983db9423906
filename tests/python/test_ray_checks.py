"""The checks of a client of nearfield.ray for a newer manifest: concurrent fresh searches share them, and each has every
commit that was acknowledged before it began."""

from __future__ import annotations

import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import nearfield
import pytest

pytest.importorskip("pyarrow")

from nearfield.ray import Client, _checks  # noqa: E402
from test_ray_client import view_of  # noqa: E402


class Storage:
    """Its newest manifest is `number`, which the coordinator shows at once. A check takes the number when it arrives; its
    reply waits for `replies`."""

    def __init__(self) -> None:
        self.number = 1
        self.calls = 0
        self.arrived = threading.Semaphore(0)
        self.replies = threading.Semaphore(0)
        self.fails: Exception | None = None

    def newest_number(self, _: float) -> int:
        number, failed = self.number, self.fails
        self.calls += 1
        self.arrived.release()
        assert self.replies.acquire(timeout=30)
        if failed is not None:
            raise failed
        return number

    def call(self, method: str, timeout: float, have: Any, wait: float, number: int) -> Any:
        assert method == "view"
        return view_of(self.number, "server")


@pytest.fixture
def storage() -> Storage:
    return Storage()


@pytest.fixture
def client(storage, tmp_path, monkeypatch):
    """Sends one check at a time, and has the first view."""
    monkeypatch.setattr(_checks, "_AT_ONCE", 1)
    monkeypatch.setattr("nearfield.ray._calls._CHECK_SECONDS", 1e9)  # views change by fresh searches only
    with Client(str(tmp_path), timeout=30) as made:
        made.call = storage.call  # type: ignore[assignment,method-assign]
        made._newest = _checks.Checks(storage.newest_number)
        made._shard_calls._server = lambda _: types.SimpleNamespace(collection=lambda name: name)  # type: ignore[assignment,method-assign]
        made._current(time.monotonic() + 30)
        yield made


def search(client: Client, timeout: float = 30) -> int:
    """Returns the number of the manifest of an answer."""
    view, _ = client.read("docs", timeout, True, lambda *_: None)
    return int(view["number"])


def test_a_search_does_not_use_a_check_that_was_sent_before_it_began(client, storage):
    """A commit in between would be missing. The check before is still under way when the second search begins."""
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(search, client)
        assert storage.arrived.acquire(timeout=30)
        storage.number = 2  # acknowledged after the check was sent, and before the second search begins
        second = pool.submit(search, client)
        storage.replies.release()
        assert first.result(30) == 1
        storage.replies.release()
        assert second.result(30) == 2
    assert storage.calls == 2


def test_searches_that_wait_share_a_check(client, storage):
    """Each one would read an object of the storage."""
    with ThreadPoolExecutor(40) as pool:
        first = pool.submit(search, client)
        assert storage.arrived.acquire(timeout=30)
        joined = threading.Semaphore(0)
        join = client._newest.join

        def join_and_count(deadline: float) -> Any:
            found = join(deadline)
            joined.release()
            return found

        client._newest.join = join_and_count  # type: ignore[method-assign]
        others = [pool.submit(search, client) for _ in range(39)]
        for _ in others:
            assert joined.acquire(timeout=30)
        storage.number = 2  # before the check of the others is sent
        storage.replies.release(2)
        assert first.result(30) == 1 and [each.result(30) for each in others] == [2] * 39
    assert storage.calls == 2


def test_every_search_has_the_commits_before_it_began(client, storage, monkeypatch):
    """Also with several checks under way at a time, while commits are acknowledged all the time."""
    monkeypatch.setattr(_checks, "_AT_ONCE", 3)
    client._newest = _checks.Checks(storage.newest_number)
    storage.replies.release(10**6)
    stale, count = [], 40

    def run(_: int) -> None:
        for _ in range(count):
            before = storage.number
            found = search(client)
            if found < before:
                stale.append((before, found))

    done = threading.Event()

    def commit() -> None:
        while not done.is_set():
            storage.number += 1

    committing = threading.Thread(target=commit)
    committing.start()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(run, range(16)))
    done.set()
    committing.join()
    assert not stale and storage.calls <= 16 * count


def test_a_search_waits_no_longer_than_its_timeout_for_a_shared_check(client, storage):
    with ThreadPoolExecutor(2) as pool:
        patient = pool.submit(search, client, 30)
        assert storage.arrived.acquire(timeout=30)
        for timeout in (0.0, 0.1):
            with pytest.raises(nearfield.DeadlineExceeded):
                search(client, timeout)
        storage.replies.release(10)
        assert patient.result(30) == 1


def test_a_check_that_fails_fails_only_its_searches(client, storage):
    storage.fails = nearfield.Unavailable("no answer")
    with ThreadPoolExecutor(2) as pool:
        failed = pool.submit(search, client)
        assert storage.arrived.acquire(timeout=30)
        storage.fails = None
        other = pool.submit(search, client)
        storage.replies.release(2)
        with pytest.raises(nearfield.Unavailable, match="no answer"):
            failed.result(30)
        assert other.result(30) == 1
