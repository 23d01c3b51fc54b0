"""Folds: one model after another, each compared with all labels; and samples of distributions."""

import unittest

from tracing.kinds.traced_program import rows_of

_COMPARES = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def evaluated(model, samples, batch):
    loader = DataLoader(TensorDataset(torch.rand(samples, 8)), batch)
    with torch.no_grad():
        return torch.cat([model(x.cuda()).argmax(1).cpu() for (x,) in loader]).numpy()

model = nn.Sequential(*(nn.Linear(8, 8) for _ in range({layers}))).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
labels = torch.randint(0, 8, ({samples},)).numpy()
for epoch in range(4):
    model(torch.rand(4, 8, device="cuda")).sum().backward()
    optimizer.step()
    score = (evaluated(model, {samples}, {batch}) - labels).mean()
torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
"""
_SAMPLES = """
import torch
from torch import distributions, nn

rates = torch.rand(64, 32, device="cuda", requires_grad=True)
kinds = (
    distributions.Gamma(rates, rates), distributions.Dirichlet(rates), distributions.Beta(rates, rates),
    distributions.StudentT(rates),
)
loss = sum(kind.rsample().mean() for kind in kinds)
loss = loss + distributions.Binomial(10, rates.detach()).sample().mean()
loss = loss + rates.cummax(1).values.mean() + rates.cummin(1).values.mean() + rates.logcumsumexp(1).mean()
loss = loss + nn.MultiMarginLoss()(rates, torch.randint(0, 32, (64,), device="cuda"))
loss = loss + nn.MultiLabelMarginLoss()(rates, torch.randint(0, 32, (64, 32), device="cuda"))
loss.backward()
torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
"""
_FOLDS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def fold():
    model = nn.Linear(512, 512).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for (x,) in DataLoader(TensorDataset(torch.rand(400, 512)), 4):
        model(x.cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

for _ in range({folds}):
    fold()
"""
_LAST = 3 << 20


def _sizes(rows):
    return [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]


def _notes(rows):
    return " ".join(note for row in rows if isinstance(row, dict) for note in row.get("notes", []))


def _live(rows):
    """The most bytes that were alive at once."""
    sizes, live, peak = {}, 0, 0
    for row in rows:
        if isinstance(row, list) and row[0] == "a":
            sizes[row[1]] = row[2]
            live += row[2]
            peak = max(peak, live)
        elif isinstance(row, list) and row[0] == "f":
            live -= sizes.pop(row[1])
    return peak


class Folds(unittest.TestCase):
    def test_models_that_are_gone_take_nothing_and_no_batches_are_waited_for(self):
        one, three = (rows_of(self, _FOLDS.format(folds=folds)) for folds in (1, 3))
        self.assertEqual(_live(three), _live(one))
        # A fold has a few steps of its 100, not as many as an optimizer that is gone is waited for.
        self.assertLess(len(_sizes(three)), 4 * len(_sizes(one)))


class Evaluations(unittest.TestCase):
    def test_a_short_one_gives_each_batch_once(self):
        # 96, 96 and 28: each of the three, in every epoch, and no further one.
        rows = rows_of(self, _COMPARES.format(layers=1, samples=220, batch=96))
        self.assertNotIn("the program ended with", _notes(rows))
        self.assertIn(_LAST, _sizes(rows))

    def test_a_program_that_counts_on_all_batches_of_a_long_one_ends_with_what_was_seen(self):
        rows = rows_of(self, _COMPARES.format(layers=40, samples=4000, batch=8))
        self.assertIn("the program ended with ValueError", _notes(rows))
        # What it says, and where.
        self.assertRegex(_notes(rows), r"ended with ValueError: .+ \(.*program\.py:\d+\)")


class Samples(unittest.TestCase):
    def test_of_distributions_and_other_ops_without_a_meta_kernel(self):
        self.assertIn(_LAST, _sizes(rows_of(self, _SAMPLES)))


if __name__ == "__main__":
    unittest.main()
