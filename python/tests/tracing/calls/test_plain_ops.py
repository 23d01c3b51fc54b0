"""Ops of which only the memory is counted: the record is the one that following all of them makes."""

import unittest

from tracing.kinds.traced_program import rows_of

# With names of its own, so that nothing holds those of the program.
LONG_WAY = """
exec('''
from plimsoll.tracing.programs import plain_ops
plain_ops.PlainOps.run = lambda *_: plain_ops.MORE
''', {})
"""

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
rows = torch.randn(300, 64, device="cuda")
layers = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 8)).cuda()

# A router: an even share of the rows goes to each expert, through views, copies and casts.
chosen = layers(rows).softmax(-1).topk(2).indices
hot = F.one_hot(chosen, 8).permute(2, 1, 0)
for expert in hot:
    where = expert.to(torch.bool).clone().view(2, 300)
    taken = rows[where.any(0)]
    assert 0 < len(taken) < 300, len(taken)
marks = (chosen[:, 0] == 3).to(torch.float32)
assert 0 < len(rows[(marks * torch.ones(300, device="cuda")) > 0]) < 300
# A mask in numbers has two values.
assert len((layers(rows)[:, 0] > 0.1).long().unique()) == 2

# Known values go through views and sums, and where one is unknown nothing is known.
lengths = torch.tensor([3, 5, 7], device="cuda")
assert int(lengths.view(3, 1).t().sum()) == 15
assert torch.zeros(int(lengths.sum(0)), device="cuda").shape == (15,)
assert float((layers[0].bias * 0 + 1).detach().sum()) == 64
drawn = torch.rand(300, device="cuda").view(10, 30)
assert 0 < int((drawn.detach() < 0.3).sum()) < 300

# Scores of a model that was just initialised pass a low limit, also in parts.
with torch.no_grad():
    scores = layers(rows).sigmoid().split([100, 200])
rows[:200][scores[1][:, 0] > 0.05]

# In host memory nothing is asked of the GPU; nor is it for what has no values.
on_host = nn.Linear(256, 256)
(on_host.weight.t() * 2).double()
empty = rows[:0]
assert (empty * 2).view(0, 64).to(torch.float16).shape == (0, 64)
torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), device="cuda").t()
torch.func.vmap(lambda row: (row.view(8, 8).t() * 2).sum(0))(rows)

# Gradients are added up in place, and weights become lower by steps.
optimizer = torch.optim.SGD(layers.parameters(), lr=0.1, momentum=0.9)
for step in range(2):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        hidden = layers[0](rows)
        hidden = layers[3](layers[2](layers[1](hidden + rows)) + hidden.mean(-1, keepdim=True))
    (hidden.float() ** 2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class PlainOps(unittest.TestCase):
    maxDiff = None

    def record(self, text):
        *rows, end = rows_of(self, text)
        # The first says how it was called.
        return [*rows[1:], {**end, "seconds": 0}]

    def test_the_record_is_that_of_the_long_way(self):
        self.assertEqual(self.record(PROGRAM), self.record(LONG_WAY + PROGRAM))


if __name__ == "__main__":
    unittest.main()
