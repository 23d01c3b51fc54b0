"""`nn.TransformerEncoderLayer` and `nn.MultiheadAttention`, which run ops of their own in evaluation."""

import unittest

from tracing.kinds.traced_program import rows_of

# Scores of 2 sentences, 4 heads and 48 words are of no other size.
PROGRAM = """
import torch
from torch import nn

layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first={first})
model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).cuda()
words = torch.zeros(2, 48, 32, device="cuda")
padding = torch.zeros(2, 48, dtype=torch.bool, device="cuda")


def run(mask):
    assert model(words, src_key_padding_mask=mask).shape == (2, 48, 32)


{lines}
"""
SCORES = 2 * 4 * 48 * 48 * 4


class EncoderLayers(unittest.TestCase):
    def scores(self, *lines, first=True):
        """How often all scores were asked for."""
        rows = rows_of(self, PROGRAM.format(first=first, lines="\n".join(lines)))
        return [row[2] for row in rows if isinstance(row, list) and row[0] == "a"].count(SCORES)

    def test_a_mask_has_all_scores_made_and_masked_in_evaluation_alone(self):
        self.assertEqual(self.scores("run(padding)"), 0)
        evaluated = ("model.eval()", "with torch.{}():", "    run(padding)")
        for mode in ("no_grad", "inference_mode"):
            for first in (True, False):
                lines = [line.format(mode) for line in evaluated]
                self.assertEqual(self.scores(*lines, first=first), 2)
        # Without a mask kernels are fused, and with gradients each step is one of its own.
        self.assertEqual(self.scores("model.eval()", "with torch.no_grad():", "    run(None)"), 0)
        self.assertEqual(self.scores("model.eval()", "run(padding)"), 0)

    def test_attention_by_itself_tells_its_weights(self):
        lines = (
            "attend = nn.MultiheadAttention(32, 4, batch_first=True).cuda().eval()",
            "with torch.no_grad():",
            "    seen, weights = attend(words, words, words, key_padding_mask=padding)",
            "    assert weights.shape == (2, 48, 48)",
            "    seen, weights = attend(words, words, words, need_weights=False)",
            "    assert weights is None and seen.shape == (2, 48, 32)",
        )
        self.assertEqual(self.scores(*lines), 2)


if __name__ == "__main__":
    unittest.main()
