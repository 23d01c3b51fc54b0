"""Rows that drawn numbers choose: the interval allows for some less and some more, not for none and for all."""

import unittest

import torch

from tracing import watching

from plimsoll.tracing import ledger as kinds
from plimsoll.tracing.choices.chosen import DRAWN_NOTE, NOTE
from plimsoll.tracing.choices.drawn_values import spread

SAMPLES, WORDS, WIDTH = 32, 1024, 64


def shares(mask_of):
    """By which parts of the chosen rows there may be less, and more, and the notes."""
    with watching.watched() as observer:
        observer.category = kinds.ACTIVATION
        rows = torch.empty(SAMPLES, WORDS, WIDTH, device="meta")
        mask = mask_of()
        chosen = rows[mask]
        made = [chosen + 1 for _ in range(8)]
        ledger = observer.ledger
        size = (1 + len(made)) * chosen.numel() * chosen.element_size()
        return ledger.loose_at_peak / size, ledger.larger_at_most / size, observer.notes


def hidden(rate=0.2):
    return torch.rand(SAMPLES, WORDS, device="meta") < rate


class Drawn(unittest.TestCase):
    def test_of_many_draws_about_as_many_hit_as_is_likely(self):
        def words():
            return torch.arange(SAMPLES * WORDS, device="meta").view(SAMPLES, WORDS)

        for mask_of in (
            hidden,
            lambda: hidden() & (words() % 7 > 1),
            lambda: hidden() & (torch.rand(SAMPLES, WORDS, device="meta") < 0.8),
            lambda: words().masked_fill(~hidden(), -100) != -100,
        ):
            less, more, notes = shares(mask_of)
            # About 5,000 of 6,500 rows: four standard deviations.
            self.assertTrue(0.04 < less < 0.07, less)
            self.assertTrue(0.04 < more < 0.07, more)
            self.assertEqual(notes, {DRAWN_NOTE})

    def test_a_rate_that_is_drawn_for_each_sample_decides_for_all_of_it(self):
        def mask_of():
            rates = torch.rand(SAMPLES, 1, device="meta") * 0.9 + 0.05
            return torch.rand(SAMPLES, WORDS, device="meta") < rates

        less, more, notes = shares(mask_of)
        # Half of 32 samples, each as one.
        self.assertTrue(0.7 < less < 1.01, less)
        self.assertGreater(more, 0.7)
        self.assertEqual(notes, {DRAWN_NOTE})

    def test_what_else_decides_may_choose_none(self):
        less, _, notes = shares(lambda: hidden() & (torch.randn(SAMPLES, WORDS, device="meta") > 0))
        self.assertEqual((less, notes), (1, {NOTE}))

    def test_few_draws_may_all_miss(self):
        with watching.watched():
            self.assertEqual(spread(hidden(rate=0.0002), 6), 1)
            self.assertIsNone(spread(torch.randn(SAMPLES, WORDS, device="meta") > 0, 6))


if __name__ == "__main__":
    unittest.main()
