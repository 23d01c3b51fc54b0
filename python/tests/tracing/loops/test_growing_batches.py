"""Outputs that a program collects over an epoch: none of them is left out, or the interval says so."""

import unittest
from types import SimpleNamespace

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.loops.growing import Growing, growth_of

PROGRAM = """
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.zeros({batches} * 8, 16)), batch_size=8)
model = torch.nn.Linear(16, 4096).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    kept = []
    for (batch,) in loader:
        out = model(batch.cuda())
        out.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(out.{keep})
    together = torch.cat(kept) if kept[0].dim() else sum(kept)
"""


class CollectedOutputs(unittest.TestCase):
    def sizes_of(self, op, **settings):
        rows = rows_of(self, PROGRAM.format(**settings))
        self.footer = rows[-1]
        names = {row[1]: row[2] for row in rows[1:-1] if row[0] == "s"}
        return [row[2] for row in rows[1:-1] if row[0] == "a" and names[row[3]] == op]

    def test_all_of_an_epoch_are_joined(self):
        joined = self.sizes_of("aten.cat.default", batches=90, keep="detach()")
        self.assertEqual(joined, [90 * 8 * 4096 * 4] * 3)
        self.assertEqual(self.footer["maybeMoreBytes"], 0)

    def test_numbers_for_a_report_do_not_make_an_epoch_longer(self):
        forward = self.sizes_of("aten.addmm.default", batches=90, keep="detach().mean()")
        self.assertLess(len(forward), 90)


class GrowthOfALoader(unittest.TestCase):
    def setUp(self):
        self.watch = SimpleNamespace(more_bytes=0, observer=SimpleNamespace(notes=set()))
        self.growing = Growing(self.watch)

    def test_what_the_last_two_batches_both_left(self):
        self.assertEqual(growth_of([0, 9]), 0)
        self.assertEqual(growth_of([0, 9, 9]), 0)
        self.assertEqual(growth_of([0, 9, 12, 14]), 2)
        self.assertEqual(growth_of([0, 9, 12, 11]), 0)

    def test_a_trainer_that_ends_its_epochs_early_leaves_out_what_would_be_held(self):
        self.growing.left_out("data", [0, 2 << 20, 3 << 20], 100)
        self.growing.left_out("data", [0, 2 << 20, 3 << 20], 100)
        self.assertEqual(self.watch.more_bytes, 2 * 100 << 20)

    def test_an_epoch_of_many_ops_makes_the_interval_higher_once(self):
        held = [0, 2 << 20, 3 << 20]
        self.assertFalse(self.growing.runs_rest("data", held, 100, 1_000_000))
        self.assertEqual(self.watch.more_bytes, 2 * 100 << 20)
        self.assertEqual(len(self.watch.observer.notes), 1)
        self.assertFalse(self.growing.runs_rest("data", held, 100, 1_000_000))
        self.assertEqual(self.watch.more_bytes, 2 * 100 << 20)

    def test_a_later_epoch_is_run_to_its_end_from_its_first_batch(self):
        self.assertTrue(self.growing.runs_rest("data", [0, 2 << 20, 3 << 20], 100, 1_000))
        self.assertTrue(self.growing.runs_rest("data", [0], 100, 1_000))
        self.assertFalse(self.growing.runs_rest("other data", [0], 100, 1_000))
        self.assertFalse(self.growing.runs_rest("data", [0], 0, 1_000))


if __name__ == "__main__":
    unittest.main()
