"""The log of a cluster in every order of the requests of coordinators and readers, and with faults that were planted."""

from __future__ import annotations

import inspect
import sys
import types
from functools import partial
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("obstore")

from log_model import Explorer, Violation, coordinator, reader  # noqa: E402
from nearfield._errors import FailedPrecondition  # noqa: E402
from nearfield.ray import _log  # noqa: E402

A, B, OTHER = "a@2", "b@2", "c@3"  # the last one is in another collection
READER = partial(reader, number=1)


def commits(author: str, *program: str, **options: Any) -> Any:
    return lambda protocol: coordinator(protocol, author, *program, **options)


# One client repeats its operation at another coordinator, while the first one still runs.
TWICE = {"processes": [commits("x", A), commits("y", A)], "faults": 2}
READ = {"processes": [commits("x", A), commits("y", A), READER], "faults": 1}
# The reader was paused; manifests become empty at once.
PAUSED = {"processes": [commits("x", A, B, retires=True), READER], "retires": True}
LATE = {"processes": [commits("x", A, B, retires=True), commits("y", "c@2")], "retires": True}
# The collection is dropped, and another one of its name is created.
DROPPED = {"processes": [commits("x", "-drop", "-again", kinds={"-drop": "drop", "-again": "create"}), commits("y", A)], "faults": 1}
# All replicas refuse an operation that they have staged: those of one coordinator; of all.
REFUSED = {"processes": [commits("x", A, poison=[A]), commits("y", A)], "faults": 1}
REFUSED_BY_ALL = {"processes": [commits("x", A, poison=[A]), commits("y", B, poison=[A], withdraws=True)], "faults": 1, "poison": [A]}
# Another number of shards, twice, or while another coordinator commits.
RESIZED = {"processes": [commits("x", A), commits("y", "resize to 2")], "faults": 1}
RESIZED_TWICE = {"processes": [commits("x", "resize to 3", A), commits("y", "resize to 2")]}
COMPACTED = {"processes": [commits("x", A, B), commits("y", "compact")], "faults": 1}
# An operator withdraws what the replicas of one coordinator refuse, and another one has resized or compacted.
RESIZED_REFUSED = {"processes": [commits("x", A, poison=[A], withdraws=True), commits("y", "resize to 2")]}
COMPACTED_REFUSED = {"processes": [commits("x", B, A, poison=[A], withdraws=True), commits("y", "compact")]}
OTHERS = {"processes": [commits("x", A), commits("y", OTHER)], "faults": 1}
SCENARIOS = {"twice": TWICE, "read": READ, "paused": PAUSED, "late": LATE, "dropped": DROPPED, "refused": REFUSED,
             "refused by all": REFUSED_BY_ALL, "resized": RESIZED, "resized twice": RESIZED_TWICE, "compacted": COMPACTED,
             "resized, refused": RESIZED_REFUSED, "compacted, refused": COMPACTED_REFUSED, "others": OTHERS}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_order_keeps_the_contract(name, monkeypatch):
    monkeypatch.setattr(_log, "KEPT", 1)
    states = Explorer(**SCENARIOS[name]).explore()
    print(f"{name}: {states} states")
    assert states > 100


def mutant(old: str, new: str) -> Any:
    """Returns the module with a fault in its source."""
    source = inspect.getsource(_log)
    assert source.count(old) == 1, source.count(old)
    made = types.ModuleType("nearfield.ray._mutant")
    sys.modules[made.__name__] = made  # for its dataclasses
    exec(compile(source.replace(old, new), "_mutant.py", "exec"), made.__dict__)
    made.KEPT = 1  # type: ignore[attr-defined]
    return made


FAULTS = {
    # A fresh read believed a coordinator that another one had replaced.
    "fresh_reads_trust_what_is_shown": (
        READ, "return (yield from _newest(number))[0]", "return number\n    yield", "a fresh read shows"),
    # A read of a client that was paused, or a write of such a coordinator.
    "old_manifests_are_deleted_for_readers": (
        PAUSED, 'yield store("put", object_name(self._retired), b"")', 'yield store("delete", object_name(self._retired))', "a fresh read shows"),
    "old_manifests_are_deleted_for_writers": (
        LATE, 'yield store("put", object_name(self._retired), b"")', 'yield store("delete", object_name(self._retired))', "next to another one|follows nothing|is not in"),
    # Two coordinators commit the same manifest.
    "a_manifest_is_overwritten": (
        TWICE, 'won = yield store("put_new", name, data)', 'won = (yield store("put", name, data)) or True', "next to another one"),
    "a_manifest_of_another_one_counts_as_won": (
        TWICE, 'won = (yield store("get", name)) == data', "won = True", "two numbers"),
    # A token was known for 1,000 commits, less than the time after which it is used.
    "tokens_are_forgotten": (
        TWICE, "return (yield from self._tokens.added(after, token, name, kind, done, by))", "return after", "took place twice"),
    # An operation that all replicas refuse, and a coordinator that ends before it has withdrawn it.
    "there_is_no_withdrawal": (
        REFUSED_BY_ALL, "tail=state.tail[:-1], before=[])", "before=[])", "no server can load|is not known"),
    "what_may_be_withdrawn_is_acknowledged": (
        REFUSED, "if done.number < before.number or before.author == self.author:", "if True:", "is not in"),
    # A delete took place in another collection of the name.
    "the_collection_is_not_compared": (
        DROPPED, "if created not in (None, state.created):", "if False:", "another collection"),
    # A commit to one collection undid those to another.
    "a_commit_forgets_the_other_collections": (
        OTHERS, "after = before.with_state(name, made)", "after = replace(before, collections={name: made})", "several collections"),
    "a_resize_that_lost_a_race_is_not_made_again": (
        RESIZED, "made = yield from make(before)", 'made = locals().get("made") or (yield from make(before))', "is not in"),
    "a_withdrawal_brings_back_the_rows_of_other_shards": (
        RESIZED_REFUSED, "replace(state, rows=rows[name], before=[])", "replace(state, rows=rows[name])", "rows of 1 of 2 shards"),
    "a_compaction_forgets_what_was_committed_meanwhile": (
        COMPACTED, "tail=[base, *after]", "tail=[base]", "is not in"),
    "a_withdrawal_undoes_a_compaction": (
        COMPACTED_REFUSED, "before=now.before if known else []", "before=now.before", "is not in"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name):
    scenario, old, new, message = FAULTS[name]
    with pytest.raises((Violation, FailedPrecondition), match=message):
        Explorer(**scenario, protocol=mutant(old, new)).explore()
