"""Small parameters that decide how much is kept, before and after the first steps."""

import unittest

from tracing.kinds.traced_program import rows_of

ROWS, WIDTH, MOST, RAMP = 64, 512, 1024, 32
# A span that is learned: of 1,024 places so many are kept as it says, and 32 more.
SPAN = f"""
import math

import torch
from torch import nn


class Spanned(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn({WIDTH}, {MOST}))
        self.span = nn.Parameter(torch.zeros(4, 1, 1) + {{first}})

    def size(self):
        return min({MOST}, math.ceil(self.span.max().item() * {MOST}) // 16 * 16 + {RAMP})

    def forward(self, x):
        return (x @ self.weight[:, : self.size()]).sigmoid() * self.span.mean()


model = Spanned().cuda()
optimizer = torch.optim.{{optimizer}}(model.parameters(), lr=1e-3)
for step in range(4):
    optimizer.zero_grad()
    before = model.span.detach().clone()
    model(torch.randn({ROWS}, {WIDTH}, device="cuda")).sum().backward()
    optimizer.step()
    if (model.span.detach() - before).abs().max().item() == 0:
        raise ValueError("no step changes anything")
    model.span.data.clamp_(0, 1)
print("spans", model.size())
"""


class LearnedSpans(unittest.TestCase):
    def sizes(self, first, optimizer):
        rows = rows_of(self, SPAN.format(first=first, optimizer=optimizer))
        return [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]

    def test_a_span_stays_about_what_it_was_initialised_with(self):
        for first, kept, optimizer in ((0, RAMP, "Adagrad"), (0.25, 256 + RAMP, "AdamW")):
            with self.subTest(first=first):
                sizes = self.sizes(first, optimizer)
                self.assertGreaterEqual(sizes.count(ROWS * kept * 4), 4)
                self.assertNotIn(ROWS * MOST * 4, sizes)


if __name__ == "__main__":
    unittest.main()
