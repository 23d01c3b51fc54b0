"""What libraries of metrics and trainers ask of a program's data."""

import unittest

from torch.utils.data import DataLoader, IterableDataset

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.loops.loaders import Passage

# As torchmetrics holds labels against those that there may be.
LABELS = """
import torch

scores = torch.randn(16, 4, device="cuda")
found = torch.unique(scores.argmax(-1))
assert len(found) == 4
if torch.any((found != 0) & (found != 1) & (found != 2) & (found != 3)):
    raise RuntimeError("other labels")
marks = torch.unique((scores[:, 0] > 0.5).int())
if torch.any((marks != 0) & (marks != 1)):
    raise RuntimeError("other marks")
# More words than places: each place may have its own.
assert len(torch.unique(torch.randn(4, 999, device="cuda").argmax(-1))) == 4
assert len(torch.unique(torch.randn(64, device="cuda").long())) == 64
"""


class Stream(IterableDataset):
    def __iter__(self):
        yield from range(5)


class Metrics(unittest.TestCase):
    def test_the_different_labels_of_a_choice_are_those_it_is_made_of(self):
        rows_of(self, LABELS)

    def test_a_stream_does_not_tell_how_short_its_last_batch_is(self):
        passage = Passage.__new__(Passage)
        passage._loader, passage._recent = DataLoader(Stream(), batch_size=2), [0, 1]
        self.assertEqual(passage._short(), 0)
        passage._loader = DataLoader(range(5), batch_size=2)
        self.assertEqual(passage._short(), 1)


if __name__ == "__main__":
    unittest.main()
