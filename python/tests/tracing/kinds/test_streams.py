"""Streams that a program makes: each has memory of its own, and PyTorch hands out 32 of each priority in turn."""

import unittest

from tracing.kinds.traced_program import rows_of

PREFETCHED = """
import torch
from torch.cuda import Stream, current_stream, stream

class Prefetched:
    def __iter__(self):
        side, batch = Stream(), None
        for _ in range(4):
            with stream(side):
                following = torch.zeros(3000, 1000).to("cuda", non_blocking=True)
            if batch is not None:
                yield batch
            current_stream().wait_stream(side)
            batch = following
        yield batch

model = torch.nn.Linear(1000, 10).cuda()
for epoch in range(3):
    for batch in Prefetched():
        model(batch).sum().backward()
"""

MADE = """
import torch

sides = [torch.cuda.Stream() for _ in range(33)]
urgent = torch.cuda.Stream(priority=-1)
assert torch.cuda.current_stream() is torch.cuda.default_stream()
with torch.cuda.stream(sides[1]):
    assert torch.cuda.current_stream() is sides[1]
    with urgent:
        a = torch.empty(1_000_000, device="cuda")
    with torch.cuda.stream(None):
        b = torch.empty(1_000_000, device="cuda")
    c = torch.empty(1_000_000, device="cuda")
with torch.cuda.stream(sides[32]):
    d = torch.empty(1_000_000, device="cuda")
torch.cuda.set_stream(sides[4])
e = torch.empty(1_000_000, device="cuda")
with torch.cuda.stream(torch.cuda.default_stream()):
    f = torch.empty(1_000_000, device="cuda")
g = torch.empty(1_000_000, device="cuda")
torch.cuda.set_stream(torch.cuda.default_stream())
h = torch.empty(1_000_000, device="cuda")
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) > 0
"""

PRODUCTS = """
import torch

a = torch.empty(100, 100, device="cuda")
a @ a
with torch.cuda.stream(torch.cuda.Stream()):
    a @ a
    a @ a
"""

# As Lightning does after fit().
CLEARED = (
    PRODUCTS
    + """
torch._C._cuda_clearCublasWorkspaces()
torch.empty(7_000_000, dtype=torch.uint8, device="cuda")
a @ a
"""
)


def streams(rows, size):
    """The stream of each allocation of this size."""
    asked = [row for row in rows if isinstance(row, list) and row[0] == "a" and row[2] == size]
    return [row[6] if len(row) > 6 else 0 for row in asked]


class Streams(unittest.TestCase):
    def test_each_epoch_of_a_loader_that_makes_a_stream_has_memory_of_its_own(self):
        self.assertEqual(
            streams(rows_of(self, PREFETCHED), 12_000_000), [1] * 4 + [2] * 4 + [3] * 4
        )

    def test_allocations_are_asked_for_on_the_stream_that_was_entered_or_set(self):
        self.assertEqual(streams(rows_of(self, MADE), 4_000_000), [33, 2, 2, 1, 5, 0, 5, 0])

    def test_matrix_products_have_a_workspace_for_each_stream(self):
        rows = rows_of(self, PRODUCTS)
        kept = [row for row in rows if isinstance(row, list) and row[0] == "a" and row[5] == "k"]
        self.assertEqual([row[6] if len(row) > 6 else 0 for row in kept], [0, 1])

    def test_workspaces_that_are_given_back_are_asked_for_again_where_they_are_needed(self):
        rows = [row for row in rows_of(self, CLEARED) if isinstance(row, list)]
        kept = [row[1] for row in rows if row[0] == "a" and row[5] == "k"]
        self.assertEqual(len(kept), 3)
        marker = next(at for at, row in enumerate(rows) if row[0] == "a" and row[2] == 7_000_000)
        self.assertLess(set(kept[:2]), {row[1] for row in rows[:marker] if row[0] == "f"})


if __name__ == "__main__":
    unittest.main()
