"""Batches that a program asks for with `next`: a loader that ended early would end the program."""

import unittest

from tracing.kinds.traced_program import rows_of

PROGRAM = """
import torch
from torch.utils.data import DataLoader, IterableDataset


class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.zeros(16)


class Held(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.zeros(16)


loader = DataLoader({data}, batch_size=4)
model = torch.nn.Linear(16, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
given, ends = iter(loader), 0
for epoch in range(2):
    for step in range(40):
        {ask}
        model(batch.cuda()).sum().backward()
        optimizer.step()
    with torch.no_grad():
        model(torch.zeros(1000, 16, device="cuda"))
assert {holds}, ends
"""

STARTS_AGAIN = """try:
            batch = next(given)
        except StopIteration:
            given, ends = iter(loader), ends + 1
            batch = next(given)"""


class AskedForWithNext(unittest.TestCase):
    def check(self, data, ask, holds):
        rows = rows_of(self, PROGRAM.format(data=data, ask=ask, holds=holds))
        sizes = [row[2] for row in rows[1:-1] if row[0] == "a"]
        self.assertIn(1000 * 64 * 4, sizes)
        self.assertEqual(rows[-1]["notes"], [])

    def test_a_stream_goes_on_as_long_as_it_is_asked(self):
        self.check("Endless()", "batch = next(given)", "ends == 0")

    def test_so_do_batches_that_the_program_counted(self):
        self.check("Held()", "batch = next(given)", "ends == 0")

    def test_a_program_that_knows_of_the_end_is_led_to_it(self):
        self.check("Held()", STARTS_AGAIN, "ends > 0")


if __name__ == "__main__":
    unittest.main()
