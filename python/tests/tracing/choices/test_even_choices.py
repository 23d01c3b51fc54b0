"""How many rows a choice among several gets where only the data know it: experts, classes, buckets."""

import unittest

import torch
from torch.nn.functional import one_hot

from tracing import watching
from tracing.kinds.traced_program import rows_of

from plimsoll.tracing import ledger as kinds
from plimsoll.tracing.choices.chosen import EVEN_NOTE, NOTE

ROWS, EXPERTS, WIDTH, INNER = 4096, 8, 64, 256
# Each of 4,096 tokens goes to two of eight experts, which keep what backward needs.
MIXTURE = f"""
import torch
from torch import nn

x = torch.randn({ROWS}, {WIDTH}, device="cuda")
router = nn.Linear({WIDTH}, {EXPERTS}).cuda()
experts = nn.ModuleList(nn.Linear({WIDTH}, {INNER}) for _ in range({EXPERTS})).cuda()
for step in range(3):
    weight, chosen = router(x).softmax(-1).topk(2, dim=-1)
    total = 0
    for number, expert in enumerate(experts):
        row, slot = torch.where(chosen == number)
        if row.numel() == 0:
            continue
        total = total + (expert(x[row]).sigmoid() * weight[row, slot, None]).sum()
    total.backward()
"""


class Mixture(unittest.TestCase):
    def test_each_expert_gets_its_share_and_may_get_none_or_all(self):
        rows = rows_of(self, MIXTURE)
        sizes = [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]
        for_one = ROWS * 2 // EXPERTS * INNER * 4
        self.assertGreaterEqual(sizes.count(for_one), 3 * EXPERTS)
        self.assertNotIn(ROWS * 2 * INNER * 4, sizes)
        end = rows[-1]
        self.assertIn(EVEN_NOTE, end["notes"])
        self.assertNotIn(NOTE, end["notes"])
        # The results of all experts are kept for backward: none of them, or all tokens in each.
        self.assertGreater(end["maybeLessBytes"], EXPERTS * for_one)
        self.assertGreater(end["maybeMoreBytes"], (EXPERTS - 1) * EXPERTS * for_one)


class Shares(unittest.TestCase):
    def setUp(self):
        watch = watching.watched()
        self.observer = watch.__enter__()
        self.addCleanup(watch.__exit__, None, None, None)
        self.observer.category = kinds.ACTIVATION
        self.scores = torch.empty(80, EXPERTS, device="meta")
        self.rows = torch.empty(80, 4, device="meta")

    def test_places_of_the_largest_and_drawn_numbers_are_spread_evenly(self):
        chances = self.scores.softmax(-1)
        draws = {
            "argmax": self.scores.argmax(-1),
            "max": self.scores.max(-1).indices,
            "multinomial": chances.multinomial(1).flatten(),
            "randint": torch.randint(0, EXPERTS, (80,), device="meta"),
            "bucketize": torch.bucketize(self.rows[:, 0], self.scores[0, 1:]),
        }
        for name, chosen in draws.items():
            with self.subTest(name):
                self.assertEqual(self.rows[chosen == 3].shape, (10, 4))
                self.assertEqual(len((chosen != 3).nonzero()), 70)
        self.assertEqual(self.observer.notes, {EVEN_NOTE})

    def test_a_limit_above_the_mean_is_passed_by_one_chance_of_a_row(self):
        chances = self.scores.softmax(-1)
        self.assertEqual(len(torch.where(chances[:, 1:].reshape(-1) > 0.2)[0]), 70)
        self.assertEqual(self.observer.notes, {EVEN_NOTE})
        # All may pass one below.
        self.assertEqual(len(torch.where(chances.reshape(-1) > 0.05)[0]), 640)

    def test_masks_of_two_chosen_experts_however_they_are_made(self):
        gates, chosen = self.scores.topk(2)
        zeros = torch.zeros_like(self.scores)
        of_three = {
            "any": (chosen == 3).any(-1),
            "sum": (chosen == 3).sum(-1) > 0,
            "one_hot": one_hot(chosen, EXPERTS).permute(2, 1, 0)[3],
            "one_hot of rows": one_hot(chosen, EXPERTS).sum(1).bool()[:, 3],
            "scatter": zeros.scatter(1, chosen, gates)[:, 3],
            "flat": chosen.reshape(-1).clone() == 3,
        }
        for name, mask in of_three.items():
            with self.subTest(name):
                self.assertEqual(len(mask.nonzero()), 20)
        self.assertEqual(len((chosen == 3).any(-1).logical_not().nonzero()), 60)
        self.assertEqual(len(((chosen == 3) | (chosen == 4)).nonzero()), 40)
        self.assertEqual(gates.masked_select(chosen == 3).shape, (20,))

    def test_answers_go_back_to_the_rows_that_were_chosen(self):
        """Gradients, too, as the mixtures of many projects do it."""
        rows = self.rows.requires_grad_()
        chosen = self.scores.argmax(-1)
        out = torch.zeros_like(rows)
        spread = torch.zeros_like(rows)
        for number in range(EXPERTS):
            mask = chosen == number
            out[mask] = rows[mask] * 2
            spread[mask] += rows[mask].exp()
            spread = spread.masked_scatter(mask[:, None], rows[mask].exp())
            place = mask.nonzero(as_tuple=True)[0]
            spread = spread.index_copy(0, place, rows[place])
        (out + spread).sum().backward()
        self.assertEqual(rows.grad.shape, rows.shape)

    def test_counts_of_what_was_chosen_cut_rows_into_even_parts(self):
        places = self.scores.topk(2, dim=-1).indices
        marked = torch.zeros_like(self.scores).scatter(1, places, 1)
        for counts in (marked.long().sum(0), torch.bincount(places.flatten(), minlength=EXPERTS)):
            sizes = counts.tolist()
            self.assertEqual(sum(sizes), places.numel())
            self.assertLessEqual(max(sizes) - min(sizes), 1)
            parts = self.rows.repeat(2, 1).split(sizes)
            self.assertEqual([len(part) for part in parts], sizes)

    def test_what_was_written_over_is_not_known(self):
        chosen = self.scores.argmax(-1)
        chosen[:4] = -1
        self.assertEqual(self.rows[chosen == 3].shape, (80, 4))
        self.assertEqual(self.observer.notes, {NOTE})

    def test_a_number_that_is_no_choice_tells_nothing(self):
        chosen = self.scores.argmax(-1)
        self.assertEqual(self.rows[chosen == 255].shape, (80, 4))
        self.assertEqual(self.rows[self.scores[:, 0] > 0].shape, (80, 4))
        self.assertEqual(self.observer.notes, {NOTE})


if __name__ == "__main__":
    unittest.main()
