"""Attention over rows of different lengths: nested tensors of layout jagged."""

import unittest

from tracing.kinds.traced_program import rows_of

ATTENTION = """
import torch
import torch.nn.functional as F
from torch import nn

projection = nn.Linear(64, 192).cuda()
optimizer = torch.optim.SGD(projection.parameters(), 0.1)

def attend(rows, **settings):
    parts = projection(rows).chunk(3, -1)
    heads = (part.unflatten(-1, [4, -1]).transpose(1, 2) for part in parts)
    return F.scaled_dot_product_attention(*heads, **settings).transpose(1, 2).flatten(-2)

for half in (False, True):
    for _ in range(2):
        lengths = (700, 90, 300)
        rows = torch.nested.nested_tensor(
            [torch.randn(length, 64) for length in lengths], layout=torch.jagged
        ).cuda()
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            made = attend(rows, is_causal=half)
        assert made.values().shape == (1090, 64)
        assert made.dtype == (torch.bfloat16 if half else torch.float32)
        optimizer.zero_grad()
        made.values().float().pow(2).mean().backward()
        optimizer.step()
"""


class Jagged(unittest.TestCase):
    def test_attention_is_followed_without_padding_and_without_all_scores(self):
        asked = [
            row[2] for row in rows_of(self, ATTENTION) if isinstance(row, list) and row[0] == "a"
        ]
        self.assertIn(1090 * 192 * 4, asked)
        self.assertIn(1090 * 192 * 2, asked)
        # The scores of all sentences, and those of the longest one.
        for scores in (3 * 4 * 700 * 700, 4 * 700 * 700):
            self.assertNotIn(scores * 2, asked)
            self.assertNotIn(scores * 4, asked)


if __name__ == "__main__":
    unittest.main()
