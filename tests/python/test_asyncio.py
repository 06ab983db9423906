"""Calls at the same time on one event loop, and tasks that are cancelled."""

from __future__ import annotations

import asyncio
import contextlib

import nearfield
import numpy as np
import pytest
from conftest import answer

BIG = 40_000  # rows of 384 dimensions: more than a connection holds in flight


@pytest.fixture(params=["server", "in process"])
def open_client(request):
    """open_client() -> a client of a server, or of this process."""
    if request.param == "server":
        address = request.getfixturevalue("shared").address
        return lambda: nearfield.AsyncClient(address)

    @contextlib.asynccontextmanager
    async def in_process():
        async with await nearfield.open_async(
            None, memory_bytes="256MiB", host_memory_bytes="256MiB", backend="cpu") as client:
            yield client

    return in_process


async def test_calls_at_the_same_time_give_the_same_answers(open_client, name, rng):
    rows = rng.standard_normal((500, 16), dtype=np.float32)
    async with open_client() as client:
        docs = await client.create_collection(name, 16, metric="cosine")
        await docs.upload(rows)
        one_by_one = [answer(await docs.search(row, k=5)) for row in rows[:60]]
        together = await asyncio.gather(*(docs.search(row, k=5) for row in rows[:60]))
        assert [answer(each) for each in together] == one_by_one
        streamed = await asyncio.gather(*(_streamed(docs, rows[:60]) for _ in range(3)))
        assert streamed == [one_by_one] * 3


async def _streamed(docs, rows):
    async def queries():
        for row in rows:
            yield row

    return [answer(each) async for each in docs.search_stream(queries(), k=5)]


async def test_uploads_at_the_same_time(open_client, name, rng):
    rows = rng.standard_normal((3000, 64), dtype=np.float32)
    async with open_client() as client:
        made = [await client.create_collection(f"{name}-{i}", 64, metric="dot") for i in range(4)]
        done = await asyncio.gather(*(docs.upload(rows, block_bytes=50_000) for docs in made))
        assert [each.rows_count for each in done] == [3000] * 4
        for docs in made:
            assert (await docs.fetch(np.arange(3000))).vectors.tobytes() == rows.tobytes()


async def test_a_cancelled_upload_commits_nothing(open_client, name, rng):
    rows = rng.standard_normal((BIG, 384), dtype=np.float32)
    async with open_client() as client:
        docs = await client.create_collection(name, 384, metric="dot")
        received = asyncio.Event()
        task = asyncio.create_task(
            docs.upload(rows, block_bytes=100_000, progress=lambda now: now.rows_received and received.set()))
        await received.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await docs.count()).rows_count == 0
        assert (await docs.upload(rows[:10])).rows_count == 10


async def test_a_stream_may_be_left_early(open_client, name, rng):
    rows = rng.standard_normal((300, 8), dtype=np.float32)
    async with open_client() as client:
        docs = await client.create_collection(name, 8, metric="dot")
        await docs.upload(rows)
        stream = docs.search_stream(rows)
        assert len(await anext(stream)) == 10
        await stream.aclose()
        pages = docs.search_all(rows[0], k=10)
        assert len(await anext(pages)) == 10
        await pages.aclose()
        assert len(await docs.search(rows[0])) == 10


async def test_a_call_that_takes_too_long_ends(open_client, name, rng):
    rows = rng.standard_normal((BIG, 64), dtype=np.float32)
    async with open_client() as client:
        docs = await client.create_collection(name, 64, metric="dot")
        await docs.upload(rows)
        with pytest.raises(nearfield.DeadlineExceeded) as caught:
            await docs.search(rows[:1024], timeout=0.001)  # the scan needs many times as long
        assert isinstance(caught.value, TimeoutError)
        with pytest.raises(ValueError, match="above 0"):
            await docs.search(rows[0], timeout=0)
        assert len(await docs.search(rows[0], timeout=float("inf"))) == 10


async def test_a_cancelled_task_cancels_its_call(open_client, name, rng):
    """More calls than run at the same time wait for an epoch that never comes; a call after them
    gets its turn."""
    rows = rng.standard_normal((10, 8), dtype=np.float32)
    async with open_client() as client:
        docs = await client.create_collection(name, 8, metric="dot")
        await docs.upload(rows)
        waiting = [asyncio.create_task(docs.count(min_epoch=1 << 40)) for _ in range(40)]
        assert (await docs.info()).dim == 8  # every task has begun its call
        for task in waiting:
            task.cancel()
        for done in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(done, asyncio.CancelledError)
        assert (await docs.count()).rows_count == len(rows)
