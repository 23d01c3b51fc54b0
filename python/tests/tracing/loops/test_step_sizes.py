"""Batches of different shapes that come from no loader: the interval says so where they are guessed."""

import unittest

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.watch import StepSizes

PROGRAM = """
import random
import torch

{seed}
model = torch.nn.Linear(16, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def batches():
    for number in range({batches}):
        yield torch.zeros({rows}, 16)


for batch in batches():
    model(batch.cuda()).relu().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SEED = "random.seed(1); torch.manual_seed(1)"


class SizesOfSteps(unittest.TestCase):
    def differ(self, *sizes):
        steps = StepSizes()
        for size in sizes:
            steps.went_backward(size)
            steps.stepped(1)
        return steps.differ()

    def test_sizes_that_rise_and_fall(self):
        self.assertTrue(self.differ(5, 7, 6, 9, 8))

    def test_one_size_a_few_kinds_of_steps_and_growth_are_not_meant(self):
        self.assertFalse(self.differ(*[5] * 20))
        self.assertFalse(self.differ(5, 5, 9, 5, 5, 9, 5, 5, 3, 5))
        self.assertFalse(self.differ(1, 2, 3, 4, 5, 6, 7, 8))

    def test_four_sizes_that_rise_twice_and_fall_twice_are_the_least(self):
        for sizes, differ in (
            ((5, 7, 6, 8, 5), True),
            ((5, 7, 6, 7, 5, 7, 6), False),
            ((1, 2, 3, 4, 1), False),
            ((4, 3, 2, 1, 4), False),
            # Sizes that stay neither rise nor fall.
            ((1, 2, 3, 3, 3, 4, 1), False),
            ((9, 8, 7, 7, 7, 6, 9), False),
        ):
            self.assertEqual(self.differ(*sizes), differ, sizes)

    def test_of_eight_passes_each_and_of_more_three_quarters_have_a_size_of_their_own(self):
        for sizes, differ in (
            ((3, 9, 4, 8, 2, 7, 6, 5), True),
            ((3, 9, 4, 8, 2, 7, 6), False),
            ((3, 9, 4, 8, 2, 7, 6, 5, 1, 9, 8, 9), True),
            ((3, 9, 4, 8, 2, 7, 6, 5, 9, 8, 9, 8), False),
        ):
            steps = StepSizes()
            for size in sizes:
                steps.went_backward(size)
            steps.stepped(1)
            self.assertEqual(steps.differ(), differ, sizes)

    def test_few_steps_that_add_up_passes_of_different_sizes(self):
        steps = StepSizes()
        for sizes in ((3, 9, 4), (8, 2, 7), (6, 5, 11)):
            for size in sizes:
                steps.went_backward(size)
            steps.stepped(1)
        self.assertTrue(steps.differ())

    def test_losses_of_several_kinds_come_again(self):
        steps = StepSizes()
        # The first step makes the gradients.
        for sizes in ((13, 19, 14, 18), (3, 9, 4, 8), (3, 9, 4, 8)):
            for size in sizes:
                steps.went_backward(size)
            steps.stepped(1)
        self.assertFalse(steps.differ())

    def test_steps_on_batches_of_a_loader_do_not_count(self):
        steps = StepSizes()
        for size in (5, 7, 6, 9, 8, 4):
            steps.was_given()
            for optimizer in (1, 2):
                steps.went_backward(size)
                steps.stepped(optimizer)
        self.assertFalse(steps.differ())

    def test_optimizers_that_take_turns_are_told_apart(self):
        steps = StepSizes()
        for step in range(20):
            for optimizer in (1, 2):
                # Several passes before one step.
                for part in range(2):
                    steps.went_backward(optimizer * 100 + part)
                steps.stepped(optimizer)
            if step % 4 == 0:
                steps.went_backward(7)
        self.assertFalse(steps.differ())

    def test_steps_that_add_up_more_or_fewer_batches_are_of_one_size(self):
        steps = StepSizes()
        for batches in (4, 4, 1, 4, 3, 4, 2, 4):
            for _ in range(batches):
                steps.went_backward(100)
            steps.stepped(1)
        self.assertFalse(steps.differ())


class BatchesOfAGenerator(unittest.TestCase):
    def footer(self, rows, seed=SEED, batches=60):
        return rows_of(self, PROGRAM.format(rows=rows, seed=seed, batches=batches))[-1]

    def test_all_were_run_in_the_order_of_a_real_run(self):
        self.assertFalse(self.footer("random.randint(8, 900)")["ragged"])

    def test_each_run_draws_others(self):
        footer = self.footer("random.randint(8, 900)", seed="")
        self.assertTrue(footer["ragged"])
        self.assertTrue(footer["drawn"])
        self.assertFalse(self.footer("64", seed="")["ragged"])

    def test_not_all_are_run(self):
        footer = self.footer("random.randint(8, 900)", batches=30_000)
        self.assertTrue(footer["ragged"])
        self.assertFalse(footer["drawn"])


if __name__ == "__main__":
    unittest.main()
