"""Programs with code for the case that the card's memory runs out."""

import unittest
from importlib.util import find_spec

from tracing.kinds.traced_program import rows_of

GIB = 1 << 30

# The H200 has 139.8 GiB.
BY_CLASS = """
import torch

model = torch.nn.Linear(1024, 1024).cuda()

def step(size):
    model(torch.empty(size, 1 << 18, 1024, device="cuda")).sum().backward()

size, failed = 256, []
while size > 1:
    try:
        step(size)
        break
    except torch.cuda.OutOfMemoryError as error:
        failed.append(str(error))
        size //= 2
assert size == 64 and len(failed) == 2 and "out of memory" in failed[0], (size, failed)
"""

BY_WORDS = """
import torch

torch.cuda.set_per_process_memory_fraction(0.5)
kept = []
try:
    while True:
        kept.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
except RuntimeError as error:
    if "out of memory" not in str(error):
        raise
assert len(kept) == 69, len(kept)
"""

BY_ACCELERATE = """
import torch
from accelerate.utils import find_executable_batch_size

tried = []

@find_executable_batch_size(starting_batch_size=512)
def train(batch_size):
    tried.append(batch_size)
    torch.empty(batch_size, 1 << 29, device="cuda").add(1)

train()
assert tried[0] == 512 and tried[-1] == min(tried) and tried[-1] * 4 < 140, tried
"""

NOT_HANDLED = """
import torch

try:
    torch.empty(300 << 30, dtype=torch.uint8, device="cuda")
except Exception as error:
    raise SystemExit(1)
torch.empty(200 << 30, dtype=torch.uint8, device="cuda")
"""


class OutOfMemory(unittest.TestCase):
    def handled(self, program):
        rows = rows_of(self, program)
        notes = "\n".join(rows[-1]["notes"])
        self.assertIn("ran out at", notes)
        self.assertIn("program.py:", notes)
        live = peak = 0
        sizes = {}
        for row in rows:
            if isinstance(row, list) and row[0] == "a":
                sizes[row[1]] = row[2]
                live += row[2]
            elif isinstance(row, list) and row[0] == "f":
                live -= sizes.pop(row[1])
            peak = max(peak, live)
        self.assertLess(peak, 140 * GIB)
        return peak

    def test_it_runs_out_where_a_handler_names_the_error(self):
        self.assertGreater(self.handled(BY_CLASS), 60 * GIB)

    def test_it_runs_out_at_a_share_of_the_card_where_a_handler_looks_for_its_words(self):
        self.assertLessEqual(self.handled(BY_WORDS), 70 * GIB)

    @unittest.skipUnless(find_spec("accelerate"), "needs accelerate")
    def test_it_runs_out_where_accelerate_looks_for_a_batch(self):
        rows = rows_of(self, BY_ACCELERATE)
        self.assertIn("ran out at", "\n".join(rows[-1]["notes"]))

    def test_any_other_program_gets_all_that_it_asks_for(self):
        rows = rows_of(self, NOT_HANDLED)
        asked = [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]
        self.assertIn(300 * GIB, asked)
        self.assertIn(200 * GIB, asked)
        self.assertNotIn("ran out at", "\n".join(rows[-1]["notes"]))


if __name__ == "__main__":
    unittest.main()
