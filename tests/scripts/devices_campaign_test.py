"""Tests of the campaign that kills a server on several devices: the model finds lost, half and
wrong rows and answers, and accepts every state that a kill may leave."""

from __future__ import annotations

import pathlib
import sys
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import kill_model  # noqa: E402
from kill_model import Batch, Change, Model, Problem  # noqa: E402

SEED, DIM, K = 5, 24, 6
QUERIES = kill_model.make_queries(SEED, 4, DIM)


def batch_of(number: int, count: int = 100) -> Batch:
    return Batch(number, kill_model.make_rows(SEED, number, count, DIM), QUERIES, K)


def stored(*batches: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Returns ids and rows as an export has them: in the order of the ids."""
    ids = np.concatenate([batch.ids for batch in batches])
    order = np.argsort(ids)
    return ids[order], np.concatenate([batch.rows for batch in batches])[order]


class Kill(unittest.TestCase):
    """Three acknowledged batches."""

    def setUp(self) -> None:
        self.model = Model(K)
        self.all = [batch_of(number) for number in range(3)]
        for epoch, batch in enumerate(self.all, 1):
            self.add(batch, epoch)

    def add(self, batch: Batch, epoch: int | None, token: str = "") -> Change:
        change = Change(batch, token=token)
        self.model.begin(change)
        if epoch is not None:
            self.model.acknowledge(change, epoch)
        return change

    def resolve(self, ids: np.ndarray, rows: np.ndarray, epoch: int = 3) -> list[Problem]:
        return self.model.resolve(*kill_model.contents(ids, rows, self.model.batches), epoch)

    def kinds(self, ids: np.ndarray, rows: np.ndarray, epoch: int = 3) -> list[tuple[str, int | None]]:
        return [(problem.kind, problem.batch) for problem in self.resolve(ids, rows, epoch)]

    def expected(self, query: int, *batches: Batch) -> list[tuple[int, int]]:
        """Returns the answer by a sort of all rows."""
        ids, rows = stored(*batches)
        return kill_model.canonical.best("dot", QUERIES[query], rows, ids.tolist(), K)

    def test_all_acknowledged_rows_are_no_problem(self) -> None:
        self.assertEqual(self.kinds(*stored(*self.all)), [])

    def test_a_missing_batch_is_lost(self) -> None:
        self.assertEqual(self.kinds(*stored(*self.all[:2])), [("lost", 2)])

    def test_a_missing_row_is_half_a_batch(self) -> None:
        ids, rows = stored(*self.all)
        self.assertEqual(self.kinds(ids[:-1], rows[:-1]), [("half", 2)])

    def test_a_flipped_bit_is_wrong(self) -> None:
        ids, rows = stored(*self.all)
        rows.view(np.uint32)[7, 3] ^= 1
        self.assertEqual(self.kinds(ids, rows), [("wrong", int(ids[7]) % kill_model.ID_STEP)])

    def test_minus_zero_is_not_zero(self) -> None:
        self.all[1].rows[4, 4] = 0.0
        ids, rows = stored(*self.all)
        rows[ids == self.all[1].ids[4], 4] = -0.0
        self.assertEqual(self.kinds(ids, rows), [("wrong", 1)])

    def test_rows_that_came_from_no_upload_are_wrong(self) -> None:
        self.assertEqual(self.kinds(*stored(*self.all, batch_of(9))), [("wrong", None)])

    def test_an_old_epoch_is_lost(self) -> None:
        self.assertEqual(self.kinds(*stored(*self.all), 2), [("lost", None)])

    def test_an_epoch_of_no_change_is_wrong(self) -> None:
        self.assertEqual(self.kinds(*stored(*self.all), 4), [("wrong", None)])

    def test_a_deleted_batch_that_is_back_is_lost(self) -> None:
        rows = stored(*self.all)
        removal = Change(self.all[1], removes=True)
        self.model.pending.append(removal)
        self.model.acknowledge(removal, 4)
        self.assertEqual(self.kinds(*rows, 4), [("lost", 1)])

    def test_an_unacknowledged_upload_may_be_there(self) -> None:
        new = batch_of(3)
        self.add(new, None)
        self.assertEqual(self.kinds(*stored(*self.all, new), 4), [])
        self.assertEqual(self.model.settle(), [])
        self.assertEqual(new.added, 4)

    def test_an_unacknowledged_upload_may_be_absent(self) -> None:
        new = batch_of(3)
        self.add(new, None)
        self.assertEqual(self.kinds(*stored(*self.all)), [])
        self.assertEqual(self.model.settle(), [])
        self.assertEqual(self.kinds(*stored(*self.all, new)), [("wrong", None)])

    def test_an_unacknowledged_deletion_may_be_done(self) -> None:
        for there in (True, False):
            with self.subTest(there=there):
                self.model.pending = [Change(self.all[2], removes=True)]
                self.assertEqual(self.kinds(*stored(*self.all[: 2 + there]), 4 - there), [])

    def test_half_of_an_unacknowledged_upload_is_half(self) -> None:
        new = batch_of(3)
        self.add(new, None)
        ids, rows = stored(*self.all, new)
        self.assertEqual(self.kinds(ids[:-1], rows[:-1], 4)[0], ("half", 3))

    def test_an_upload_with_a_token_is_repeated(self) -> None:
        change = self.add(batch_of(3), None, "token")
        self.assertEqual(self.kinds(*stored(*self.all)), [])
        self.assertEqual(self.model.settle(), [change])

    def test_an_answer_is_that_of_its_epoch_to_the_bit(self) -> None:
        for query in range(len(QUERIES)):
            right = self.expected(query, *self.all[:2])
            self.assertTrue(self.model.right(2, query, right))
            self.assertFalse(self.model.right(3, query, self.expected(query, self.all[2])))
            self.assertFalse(self.model.right(2, query, right[:-1]))
            self.assertFalse(self.model.right(2, query, [*right[:-1], (right[-1][0], right[-1][1] ^ 1)]))
            self.assertFalse(self.model.right(2, query, [right[1], right[0], *right[2:]]))

    def test_shared_rows_tie_across_batches(self) -> None:
        tied: dict[int, set[int]] = {}
        for identity, bits in self.expected(0, batch_of(1, 5000), batch_of(2, 5000)):
            tied.setdefault(bits, set()).add(identity % kill_model.ID_STEP)
        self.assertIn({1, 2}, tied.values())

    def test_two_changes_without_an_epoch_may_have_either_order(self) -> None:
        first, second = batch_of(3), batch_of(4)
        for batch in (first, second):
            self.add(batch, None)
        self.assertEqual(self.kinds(*stored(*self.all, first, second), 5), [])
        for query in range(len(QUERIES)):
            self.assertTrue(self.model.right(4, query, self.expected(query, *self.all, first)))
            self.assertTrue(self.model.right(4, query, self.expected(query, *self.all, second)))
            self.assertTrue(self.model.right(5, query, self.expected(query, *self.all, first, second)))
        query = next(at for at in range(len(QUERIES)) if first.best[at] != second.best[at])
        self.assertFalse(self.model.right(5, query, self.expected(query, first)))

    def test_candidates_of_the_fp32_products_hold_the_answer(self) -> None:
        for count in (1, K, 2000):
            batch = batch_of(count, count)
            for query in range(len(QUERIES)):
                self.assertEqual(batch.best[query], self.expected(query, batch))


if __name__ == "__main__":
    unittest.main()
