"""Workers of a loader that each have a copy of one generator: their first batches are drawn alike."""

import unittest

from tracing.kinds.traced_program import rows_of

PROGRAM = """
import random

import torch
from torch.utils.data import DataLoader, TensorDataset


class Crop:
    def __init__(self):
        self.numbers = random.Random(1)

    def __call__(self, rows):
        length = self.numbers.choice((100, 200, 400))
        return torch.stack([row[0][:length] for row in rows])


model = torch.nn.Linear(1, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = TensorDataset(torch.zeros(640, 400))
for batch in DataLoader(rows, 8, collate_fn=Crop(), num_workers={workers}):
    loss = model(batch.cuda()[..., None]).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class CopiedGenerators(unittest.TestCase):
    def test_batches_of_other_sizes_come_after_one_of_each_worker(self):
        for workers in (4, 7):
            with self.subTest(workers=workers):
                rows = rows_of(self, PROGRAM.format(workers=workers))
                asked = {row[2] for row in rows[1:-1] if row[0] == "a"}
                # Batches of 8 samples, as the layer's 8 results of 4 bytes for each place.
                for length in (100, 200, 400):
                    self.assertIn(8 * length * 8 * 4, asked)
