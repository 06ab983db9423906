"""The replicas of a cluster in every order of answers, late answers and failures, and with faults that were planted."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("ray")

from fleet_model import Violation, explore  # noqa: E402
from nearfield.ray import _coordinator, _fleet, _slot  # noqa: E402
from nearfield.ray._coordinator import CoordinatorProcess  # noqa: E402
from nearfield.ray._fleet import Fleet  # noqa: E402
from nearfield.ray._slot import Slot  # noqa: E402

SCRIPTS = {"commits": [("commit", "a"), ("commit", "b")], "rival": [("commit_elsewhere", "a"), ("commit", "b")]}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_order_keeps_the_contract(name, monkeypatch):
    count = explore(monkeypatch, SCRIPTS[name], 2)
    print(f"{name}: {count} orders")
    assert count > 1000


FAULTS: dict[str, tuple[Any, str, str, str, str]] = {
    "a_manifest_is_shown_although_a_shard_has_no_replica": (
        Fleet, "_show", "all(shards)", "any(shards)", "a shard has no replica"),
    "a_late_replica_is_shown_with_the_others": (
        Fleet, "_holders", "slot.held.get(manifest.number)", "slot.held.get(max(slot.held, default=0))", "is shown for"),
    "calls_wait_for_every_replica": (
        Fleet, "_replies", "limit = 2 * steps", "limit = math.inf", "a call waits for"),
    "a_late_replica_takes_part": (
        Slot, "late", "or self.pending is not None", "", "before the replica has answered"),
    "a_replica_applies_what_it_has_not_staged": (
        CoordinatorProcess, "apply", "if slot in self._staged", "", "before the replica has answered"),
    "a_commit_is_acknowledged_before_it_is_shown": (
        CoordinatorProcess, "commit", "if self._changed.wait_for(lambda: self._has_shown(done.number), left):", "if True:", "but not shown"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name, monkeypatch):
    owner, method, old, new, message = FAULTS[name]
    whole = vars(owner)[method]
    source = textwrap.dedent(inspect.getsource(whole.fget if isinstance(whole, property) else whole))
    assert source.count(old) == 1
    module = {Fleet: _fleet, Slot: _slot, CoordinatorProcess: _coordinator}[owner]
    made: dict[str, Any] = {}
    exec(compile(source.replace(old, new), f"_mutant_{method}", "exec"), vars(module), made)
    monkeypatch.setattr(owner, method, made[method])
    with pytest.raises(Violation, match=message):
        for script in SCRIPTS.values():
            explore(monkeypatch, script, 2)
