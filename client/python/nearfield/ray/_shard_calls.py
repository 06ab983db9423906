"""The calls of a client to the servers: all shards at one manifest, and another replica of a shard
if one fails or is late."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import nearfield
from nearfield._errors import DataLoss, DeadlineExceeded, Error, Unavailable
from nearfield._retry import RetryPolicy

T = TypeVar("T")
View = dict[str, Any]  # of the coordinator: Fleet.view
# Gets the view, the shard, its collection on a server, the options of the epoch, and seconds.
Ask = Callable[[View, int, nearfield.Collection, dict[str, Any], float], T]

THREADS = 256  # of a pool; they never wait for each other
HEDGE_SECONDS = 1.0  # after which another replica is asked, too
_SLOW_SECONDS = 10.0  # for which a server that was late is asked last
# After these another replica, or another manifest, may answer.
PASSING: tuple[type[Error], ...] = (DataLoss, DeadlineExceeded, Unavailable)
PASSING += (
    nearfield.Aborted,
    nearfield.Cancelled,
    nearfield.FailedPrecondition,
    nearfield.NotFound,
)


class Late(Unavailable):
    """The servers of a shard are late, and there is a newer view."""


class ShardCalls:
    """The calls of one client. Thread safety: any number of threads."""

    def __init__(self) -> None:
        self._calls = ThreadPoolExecutor(THREADS)
        self._lock = threading.Lock()
        self._clients: dict[str, nearfield.Client] = {}
        self._slow: dict[str, float] = {}  # those that were late: until when they are asked last

    def close(self) -> None:
        """Ends the connections, once the calls that run have ended."""
        self._calls.shutdown(cancel_futures=True)
        with self._lock:
            for each in self._clients.values():
                each.close()

    def forget_others(self, view: View) -> None:
        """Forgets the servers that a view does not have."""
        addresses = {each["address"] for shard in view["shards"] for each in shard}
        with self._lock:
            for each in self._clients.keys() - addresses:
                del self._clients[each]
                self._slow.pop(each, None)

    def ask_all(
        self,
        view: View,
        name: str,
        shards: Sequence[int],
        ask: Ask[T],
        deadline: float,
        newer: Callable[[], View | None] | None,
    ) -> list[T]:
        """Asks one replica of each shard, and the next one after an error or HEDGE_SECONDS. Raises
        Late if all replicas of a shard failed or are late, and `newer` returns a view in which
        others may answer; without `newer` it waits for those that are late."""
        begin = time.monotonic()
        parts: dict[int, T] = {}
        failed: dict[int, Exception] = {}
        late: set[int] = set()
        calls: dict[Future[T], int] = {}
        turn = uuid.uuid4().int
        untried: dict[int, list[Any]] = {}
        asked: dict[int, str] = {}  # the address, by shard
        now: View | None = None  # the newest view, once a shard is late

        def ask_next(shard: int) -> None:
            where = f"shard {shard} of {len(view['shards'])}"
            if untried[shard]:
                replica = untried[shard].pop()
                asked[shard] = replica["address"]
                call = self._calls.submit(self._ask, view, shard, replica, name, ask, deadline)
                calls[call] = shard
            elif shard not in calls.values():
                raise Unavailable(f"{where}: {failed.get(shard, 'it has no server')}")
            elif shard in late and _may_help(now, view, shard, shard in failed):
                raise Late(f"{where}: {failed.get(shard, 'it is late')}")

        try:
            for shard in shards:
                replicas = view["shards"][shard]
                first = turn % max(1, len(replicas))
                untried[shard] = replicas[first:] + replicas[:first]
                untried[shard].sort(key=lambda each: self._slow.get(each["address"], 0.0) < begin)
                ask_next(shard)
            while len(parts) < len(shards):
                left = deadline - time.monotonic()
                done, _ = wait(calls, max(0.0, min(HEDGE_SECONDS, left)), FIRST_COMPLETED)
                for call in done:
                    shard = calls.pop(call)
                    try:
                        parts.setdefault(shard, call.result())
                    except PASSING as error:
                        failed[shard] = error
                        if shard not in parts:
                            ask_next(shard)
                if not done:
                    if left <= 0:
                        raise DeadlineExceeded("the shards did not answer in time")
                    now = newer() if newer is not None else None
                    for shard in set(shards) - parts.keys():
                        self._slow[asked[shard]] = time.monotonic() + _SLOW_SECONDS
                        late.add(shard)
                        ask_next(shard)
        finally:
            for call in calls:
                call.cancel()
        return [parts[shard] for shard in shards]

    def _ask(
        self, view: View, shard: int, replica: Any, name: str, ask: Ask[T], deadline: float
    ) -> T:
        state = replica["states"][name]
        at = {"at_epoch": state["epoch"], "incarnation": state["incarnation"]}
        docs = self._server(replica["address"]).collection(name)
        return ask(view, shard, docs, at, max(0.001, deadline - time.monotonic()))

    def _server(self, address: str) -> nearfield.Client:
        options: Any = {"retry": RetryPolicy(tries_max=1), "read_your_writes": False}
        with self._lock:
            if address not in self._clients:
                self._clients[address] = nearfield.connect(address, **options)
            return self._clients[address]


def _may_help(now: View | None, view: View, shard: int, failed: bool) -> bool:
    """Returns True if the present view is newer than this one, and a replica may answer there: one
    that is not in this view, or one that failed in it."""
    if now is None or now is view:
        return False
    if failed or len(now["shards"]) != len(view["shards"]):
        return True
    before, after = ({each["address"] for each in of["shards"][shard]} for of in (view, now))
    return not after <= before
