"""The tokens of nearfield.ray.Cluster: a commit that is repeated with its token takes place once, for 24 hours."""

from __future__ import annotations

import time
from typing import Any

import nearfield
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("ray")

from nearfield.ray import _tokens  # noqa: E402
from nearfield.ray._log import newest_manifest  # noqa: E402
from nearfield.ray._manifest import Done, Manifest  # noqa: E402
from nearfield.ray._steps import run  # noqa: E402
from nearfield.ray._store import Store  # noqa: E402
from nearfield.ray._tokens import TOKEN_PAGES_MAX, TOKEN_SECONDS, TOKENS_MAX, Tokens  # noqa: E402
from ray_fakes import commit  # noqa: E402


@pytest.fixture
def small(monkeypatch) -> None:
    """Objects of four tokens each, at most three of them."""
    monkeypatch.setattr(_tokens, "TOKENS_MAX", 4)
    monkeypatch.setattr(_tokens, "TOKEN_PAGES_MAX", 3)


def add(store: Store, tokens: Tokens, manifest: Manifest, count: int) -> Manifest:
    """Returns the manifest after `count` commits, whose tokens are their numbers."""
    for number in range(manifest.number + 1, manifest.number + 1 + count):
        made = Manifest(number, tokens=manifest.tokens, token_pages=manifest.token_pages)
        manifest = run(tokens.added(made, f"{number}", "docs", "insert", Done(number, 1, 0, 1), f"{number}"), store=store)
    return manifest


def known(store: Store, tokens: Tokens, manifest: Manifest) -> list[int]:
    """Returns the commits whose tokens are known."""
    numbers = range(1, manifest.number + 1)
    found = [run(tokens.done(manifest, f"{number}", "docs", "insert"), store=store) for number in numbers]
    assert all(done in (None, (number, 1, 0, 1)) for number, done in enumerate(found, 1))
    return [done.number for done in found if done is not None]


def test_a_token_is_known_after_more_than_a_thousand_other_commits(coordinator, store):
    """They take about 20 s, and the first client repeats its upload after 30 s. It was executed again, over the rows
    that others had acknowledged since."""
    first = commit(coordinator, "first")
    for number in range(1_100):
        commit(coordinator, f"{number}")
    newest = coordinator._log.head.number
    assert commit(coordinator, "first") == first and coordinator._log.head.number == newest
    with pytest.raises(nearfield.FailedPrecondition, match="token"):
        coordinator.commit("docs", {"kind": "upsert", "segments": []}, "first")
    manifest = newest_manifest(store)
    assert run(Tokens().done(manifest, "first", "docs", "insert"), store=store) == (first[0], first[1], 0, 1)


def test_a_token_is_known_for_a_day(store, small, monkeypatch):
    now = [1_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    tokens = Tokens()
    manifest = add(store, tokens, Manifest(), 5)
    now[0] += TOKEN_SECONDS
    manifest = add(store, tokens, manifest, 4)
    assert known(store, tokens, manifest) == [*range(1, 10)]
    now[0] += 1
    manifest = add(store, tokens, manifest, 4)
    assert known(store, tokens, manifest) == [*range(5, 14)]


def test_the_number_of_tokens_is_bounded(store, small):
    """The last twelve commits are known whatever happens, and never more than sixteen."""
    tokens, manifest = Tokens(), Manifest()
    for number in range(1, 60):
        manifest = add(store, tokens, manifest, 1)
        found = known(store, tokens, manifest)
        assert found == [*range(number + 1 - len(found), number + 1)]
        assert min(number, 12) <= len(found) <= 16 and len(tokens._pages) <= 3


def test_a_manifest_with_all_tokens_is_small(store, monkeypatch):
    record = [10**12, 10**9, 10**9, 10**9, "64c88313"]
    tokens = {f"{number:020}": record for number in range(TOKENS_MAX)}
    pages = [[f"log/{number:032}.json", 16 * "f", 2 * 10**9] for number in range(TOKEN_PAGES_MAX)]
    assert len(Manifest(1, tokens=tokens, token_pages=pages).encode()) < 64 << 10


def test_files_of_tokens_are_deleted_when_no_manifest_names_them(coordinator, store, small):
    for number in range(40):
        commit(coordinator, f"{number}")
        named = [name for name, *_ in coordinator._log.head.token_pages]
        assert store.list("log") == sorted(named) and len(named) <= 3
    assert coordinator.clean(age_seconds_min=-1) == 0 and commit(coordinator, "39") == [41, 2]


def test_a_commit_whose_tokens_cannot_be_written_changes_nothing(coordinator, small, monkeypatch):
    for number in range(4):
        commit(coordinator, f"{number}")
    put = Store.put

    def failing(self: Store, name: str, data: bytes) -> None:
        if name.startswith("log/"):
            raise OSError("full")
        put(self, name, data)

    monkeypatch.setattr(Store, "put", failing)
    with pytest.raises(nearfield.Unavailable, match="full"):
        commit(coordinator, "next")
    assert coordinator._log.head.number == 5 and all(slot.actor.calls[-1] == "abandon" for slot in coordinator._slots)
    monkeypatch.setattr(Store, "put", put)
    assert commit(coordinator, "next") == [6, 2] and commit(coordinator, "0") == [2, 2]


def test_a_damaged_file_of_tokens_is_named(store, small):
    """Without it nothing proves that a commit is a new one."""
    tokens = Tokens()
    manifest = add(store, tokens, Manifest(), 5)
    name: Any = manifest.token_pages[0][0]
    store.put(name, b"{}")
    with pytest.raises(nearfield.DataLoss, match=name):
        run(Tokens().done(manifest, "9", "docs", "insert"), store=store)
