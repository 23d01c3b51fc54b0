"""The trace says how many batches, or turns of a loop, a real run has where it leaves them out."""

import unittest

from tracing.kinds.traced_program import rows_of

PROGRAM = """
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = [torch.zeros({length}, 8) for i in range({samples})]
step = 0
for batch in DataLoader(rows, batch_size=4, collate_fn=torch.cat):
    model(batch.cuda()).sum().backward()
    step += 1
    if step % {each} == 0:
        optimizer.step()
        optimizer.zero_grad()
    {then}
print("steps", step)
"""

TURNS = """
import torch

model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(30):
    torch.zeros(2, device="cuda")
for step in range(3000):
    optimizer.zero_grad()
    model(torch.rand(4, 8, device="cuda")).sum().backward()
    optimizer.step()
    if step == 1000:
        model(torch.rand(64, 8, device="cuda"))
"""


class LeftOut(unittest.TestCase):
    def marks(self, samples=400, length="8", then="pass", each=1):
        text = PROGRAM.format(length=length, samples=samples, then=then, each=each)
        rows = rows_of(self, text)
        return [row[1] for row in rows[1:-1] if row[0] == "m" and not row[1].startswith("phase:")]

    def in_all(self, marks):
        """Batches that the trace ran and left out; the last mark of a pass comes before its end."""
        left = sum(int(mark.split(":")[2]) for mark in marks if mark.startswith("left-out:0:"))
        return marks.count("batch:0") - 1 + left

    def test_those_that_were_run_and_left_out_are_all(self):
        # With a short one at the end, and without.
        for samples, batches in ((400, 100), (402, 101)):
            marks = self.marks(samples)
            self.assertEqual(self.in_all(marks), batches, marks)
            self.assertIn("left-out:0:94:1", marks)

    def test_a_step_may_be_of_several(self):
        marks = self.marks(each=3)
        self.assertEqual({mark.split(":")[3] for mark in marks if "left-out:" in mark}, {"3"})

    def test_those_before_a_step_at_which_more_is_done_are_told_apart(self):
        marks = self.marks(then="if step == 50: model(batch.cuda())")
        left = [int(mark.split(":")[2]) for mark in marks if mark.startswith("left-out:")]
        self.assertEqual(len(left), 2)
        self.assertEqual(self.in_all(marks), 100, marks)

    def test_turns_of_a_loop_that_trains_are_told_as_well(self):
        rows = rows_of(self, TURNS)
        marks = [row[1] for row in rows[1:-1] if row[0] == "m" and "phase:" not in row[1]]
        left = [mark for mark in marks if mark.startswith("left-out:")]
        self.assertEqual(len({mark.split(":")[1] for mark in marks}), 1, marks)
        self.assertGreaterEqual(len(left), 2)
        # The first turn is not marked: whether the loop trains is not known before.
        turns = len(marks) - len(left) + 1
        self.assertEqual(turns + sum(int(mark.split(":")[2]) for mark in left), 3000)

    def test_nothing_is_said_where_all_are_run_or_they_differ(self):
        for marks in (self.marks(samples=16), self.marks(length="8 + i")):
            self.assertEqual([mark for mark in marks if mark.startswith("left-out:")], [])


if __name__ == "__main__":
    unittest.main()
