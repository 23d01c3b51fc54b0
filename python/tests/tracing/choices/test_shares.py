"""Numbers that lie between 0 and 1 are read as such."""

import unittest

from tracing.kinds.traced_program import rows_of

PROGRAM = """
import math, torch

model = torch.nn.Linear(64, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
right = []
for step in range(4):
    x, y = torch.randn(8192, 64).cuda(), torch.randint(10, (8192,), device="cuda")
    clicks = (torch.rand(8192) < 0.3).float().cuda()
    outputs = model(x)
    torch.nn.functional.cross_entropy(outputs, y).backward()
    optimizer.step()
    hits = (outputs.argmax(1) == y).float().mean()
    right.append(hits.item())
    sure = outputs.softmax(1).max(1).values.mean()
    for share in (hits, 1 - hits, clicks.mean(), sure, outputs.sigmoid().mean(), outputs.sigmoid()[0, 0]):
        assert math.log(share.item()) < 0 and math.log(1 - share.item()) < 0, share.item()
# Numbers that are not laid out plainly are not looked at.
links = torch.sparse_coo_tensor(torch.zeros(2, 9000, dtype=torch.long), torch.rand(9000), (40, 40)).cuda()
torch.sparse.mm(links, torch.ones(40, 8, device="cuda"))
torch.rand(9000).to(torch.float8_e4m3fn).cuda()
# Written to, it is any number again, and so is what was never between 0 and 1.
clicks.mul_(100)
assert clicks.mean().item() > 1 and outputs.mean().item() > 1
assert right == sorted(right) and right[0] < right[-1]
"""


class Shares(unittest.TestCase):
    def test_probabilities_labels_and_parts_of_a_count_lie_between_0_and_1(self):
        rows_of(self, PROGRAM)
