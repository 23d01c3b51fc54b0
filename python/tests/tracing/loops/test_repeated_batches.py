"""Batches that are all alike, and such that are not: which are read, and what the trace says of them."""

import unittest

import torch

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.loops.repeated import Repeated

PROGRAM = """
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

{seed}
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = [torch.zeros({length}, 4) for i in range({rows})]
for batch in DataLoader(rows, batch_size=2, shuffle={shuffle}, collate_fn=pad_sequence):
    model(batch.cuda()).sum().backward()
    optimizer.step()
"""


OF_A_CLASS = """
import torch
from torch.utils.data import DataLoader

class Batch:
    def __init__(self, rows):
        self.rows, self.count = torch.cat(rows), len(rows)
        self.itself = self

torch.manual_seed(3)
model = torch.nn.Linear(4, 4).cuda()
rows = [torch.zeros(8 + i, 4) for i in range(40)]
for batch in DataLoader(rows, batch_size=2, shuffle=True, collate_fn=Batch):
    model(batch.rows.cuda()).sum().backward()
"""


class BatchesOfAProgram(unittest.TestCase):
    def is_ragged(self, length, seed="", shuffle=True, rows=15):
        text = PROGRAM.format(length=length, seed=seed, shuffle=shuffle, rows=rows)
        self.rows = rows_of(self, text)
        return self.rows[-1]["ragged"]

    def marked(self):
        marks = (row[1] for row in self.rows[1:-1] if row[0] == "m")
        return [mark for mark in marks if mark.startswith("batch:")]

    def test_a_short_last_batch_is_usual_and_other_lengths_are_not(self):
        self.assertFalse(self.is_ragged("8"))
        self.assertTrue(self.is_ragged("8 + i"))
        # Each run draws another order.
        self.assertTrue(self.rows[-1]["drawn"])
        # Where they may change places.
        self.assertGreater(len(self.marked()), 3)
        self.assertEqual(len(set(self.marked())), 1)
        # Where their order is that of a real run, nothing is guessed.
        self.assertFalse(self.is_ragged("8 + i", shuffle=False))
        self.assertFalse(self.is_ragged("8 + i", seed="torch.manual_seed(3)"))
        self.assertTrue(self.is_ragged("8 + i", seed="torch.manual_seed(3); torch.seed()"))

    def test_two_lengths_of_as_many_samples_differ_where_not_all_are_run(self):
        # Which would take too long.
        self.assertTrue(self.is_ragged("8 if i < 4 else 16", shuffle=False, rows=60000))
        self.assertFalse(self.rows[-1]["drawn"])

    def test_traces_of_a_program_without_a_seed_draw_the_same_order(self):
        self.is_ragged("8 + i")
        first = [row[2] for row in self.rows[1:-1] if row[0] == "a"]
        self.is_ragged("8 + i")
        self.assertEqual(first, [row[2] for row in self.rows[1:-1] if row[0] == "a"])

    def test_batches_of_a_class_of_the_program_s_own_are_told_apart(self):
        self.rows = rows_of(self, OF_A_CLASS)
        # All 20 are run, and one more was asked for in vain.
        self.assertEqual(len(self.marked()), 21)


class RepeatedBatches(unittest.TestCase):
    def setUp(self):
        self.asked = []

    def fetch(self, index):
        self.asked.append(index)
        return {"images": torch.zeros(len(index), 2), "labels": torch.tensor(index)}

    def test_after_two_that_are_alike_the_last_is_given_again_as_a_copy(self):
        repeated = Repeated(seconds=0)
        for index in ([1, 2], [3, 4], [5, 6], [7, 8]):
            batch = repeated.fetch("train", index, self.fetch)
            batch["images"] += 1
        self.assertEqual(self.asked, [[1, 2], [3, 4], [3]])
        self.assertEqual(batch["labels"].tolist(), [3, 4])
        self.assertEqual(batch["images"].tolist(), [[1, 1], [1, 1]])
        # The last of an epoch is shorter, and another data set is another.
        self.assertEqual(len(repeated.fetch("train", [9], self.fetch)["labels"]), 1)
        self.assertEqual(repeated.fetch("other", [7, 8], self.fetch)["labels"].tolist(), [7, 8])

    def test_a_data_set_that_is_made_anew_is_read_for_one_sample(self):
        repeated, kind = Repeated(seconds=0), ("images", 600)
        for index in ([1, 2], [3, 4]):
            repeated.fetch("first epoch", index, self.fetch, kind)
        self.asked.clear()
        for index in ([5, 6], [7, 8]):
            again = repeated.fetch("second epoch", index, self.fetch, kind)
            self.assertEqual(again["labels"].tolist(), [3, 4])
        self.assertEqual(self.asked, [[5]])
        # Larger images, and another number of samples, are read.
        large = repeated.fetch("large", [5, 6], lambda index: torch.zeros(len(index), 9), kind)
        self.assertEqual(large.shape, (2, 9))
        self.assertEqual(len(repeated.fetch("rest", [9], self.fetch, kind)["labels"]), 1)

    def test_batches_of_different_shapes_and_quick_ones_are_all_read(self):
        ragged = Repeated(seconds=0)
        lengths = iter((2, 3, 3, 3))
        read = [
            ragged.fetch("train", [0, 1], lambda index: torch.zeros(len(index), next(lengths)))
            for _ in range(4)
        ]
        self.assertEqual([batch.shape[1] for batch in read], [2, 3, 3, 3])
        quick = Repeated(seconds=3600)
        for _ in range(4):
            quick.fetch("train", [0, 1], self.fetch)
        self.assertEqual(len(self.asked), 4)


if __name__ == "__main__":
    unittest.main()
