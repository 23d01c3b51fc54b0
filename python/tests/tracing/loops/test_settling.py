"""When batches of different sizes no longer make the allocator hold more, the next ones need not all be run."""

import unittest

import torch

from plimsoll.tracing.ledger import Ledger
from plimsoll.tracing.programs.loops.ragged import Ragged
from plimsoll.tracing.programs.loops.settling import Settling

MIB = 2**20
CAPACITY = 64 * 2**30


class Program:
    def __init__(self):
        self.ledger = Ledger()
        self.settling = Settling(self.ledger, CAPACITY)

    def runs(self, size, reads=False):
        """A batch that asks for so many MiB at once and gives them back."""
        began = self.settling.begins()
        self.ledger.free(self.ledger.allocate(size * MIB, "op", "", "x"))
        self.settling.ran(began, reads)

    def needed(self, size, most=100):
        """How many batches of a size are run until no more is held for long."""
        for count in range(most):
            if self.settling.is_settled(False):
                return count
            self.runs(size)
        return most


class Settles(unittest.TestCase):
    def test_after_some_batches_that_leave_nothing_new(self):
        program = Program()
        for size in (100, 300):
            program.runs(size)
            self.assertFalse(program.settling.is_settled(False))
        self.assertEqual(program.needed(200), 6)

    def test_the_more_batches_it_took_the_more_must_follow(self):
        program = Program()
        for size in range(100, 1100, 50):
            program.runs(size)
        self.assertEqual(program.needed(100), 20)

    def test_what_rises_little_has_settled_until_it_adds_up(self):
        ledger = Ledger()
        settling = Settling(ledger, CAPACITY)
        ledger.allocate(2000 * MIB, "op", "", "x")
        answers = []
        for _ in range(12):
            began = settling.begins()
            ledger.allocate(2 * MIB, "op", "", "x")
            settling.ran(began, False)
            answers.append(settling.is_settled(False))
        # The first asks for a segment of 20 MiB, more than a two hundredth; the next ones lie in it.
        self.assertEqual(answers, [False] * 6 + [True] * 4 + [False] * 2)

    def test_what_is_read_and_what_is_trained_on_settle_for_themselves(self):
        program = Program()
        for _ in range(9):
            program.runs(10, reads=True)
        self.assertTrue(program.settling.is_settled(True))
        self.assertFalse(program.settling.is_settled(False))

    def test_what_rises_in_between_is_not_the_batches_own(self):
        program = Program()
        for _ in range(7):
            program.runs(10)
            program.ledger.allocate(50 * MIB, "op", "", "w")
        self.assertTrue(program.settling.is_settled(False))

    def test_larger_ones_begin_it_again(self):
        program = Program()
        self.assertEqual(program.needed(10), 7)
        program.runs(900)
        self.assertFalse(program.settling.is_settled(False))


class Ops(unittest.TestCase):
    """All are run while that is cheap, even if nothing is new."""

    def setUp(self):
        self.program = Program()
        self.ragged = Ragged(self.program.settling)
        self.program.needed(10)

    def settled(self, whole=False):
        return [self.ragged.is_settled(reads, whole) for reads in (False, True)]

    def test_some_are_always_spent(self):
        self.ragged.spent(39_999, False, False)
        self.assertEqual(self.settled(), [False, False])
        self.ragged.spent(1, False, False)
        self.assertEqual(self.settled(), [True, False])

    def test_fewer_once_all_batches_of_a_data_set_were_run(self):
        self.ragged.spent(26_000, False, False)
        self.assertEqual(self.settled(whole=True), [False, False])
        self.ragged.spent(1_000, False, False)
        self.assertEqual(self.settled(whole=True), [True, False])
        self.assertEqual(self.settled(whole=False), [False, False])

    def test_more_samples_are_looked_at_once_few_were_run(self):
        class Indices:
            def fetch(self, index):
                return torch.zeros(len(index))

        def looked_at():
            count = 0
            while self.ragged.looks():
                self.ragged.fetch(Indices(), [0] * 1000)
                count += 1000
            return count

        self.assertEqual(looked_at(), 20_000)
        self.ragged.spent(40_000, False, False)
        self.assertTrue(self.ragged.is_settled(False, False))
        self.assertEqual(looked_at(), 40_000)

    def test_more_are_spent_while_more_is_held(self):
        self.ragged.spent(50_000, False, False)
        self.program.runs(400)
        self.assertEqual(self.settled(), [False, False])


class Samples(unittest.TestCase):
    def answers(self, batches, samples):
        ragged = Ragged()
        return [ragged.is_larger(batch, (0, 0), samples) for batch in batches]

    def test_which_sample_comes_first_says_nothing(self):
        sides = [(8, 4, 6, 2), (2, 8, 4, 6), (6, 2, 8, 5)]
        batches = [[torch.zeros(3, side, side) for side in order] for order in sides]
        self.assertEqual(self.answers(batches, 4), [True, False, True])
        self.assertEqual(self.answers(batches, 5), [True, True, True])

    def test_the_largest_sample_counts_and_what_all_are_filled_up_to(self):
        shapes = [
            [(4, 4)] * 4,
            # Fewer numbers in all: one sample is larger, then one is only longer.
            [(5, 4), (2, 2), (2, 2), (2, 2)],
            [(1, 9), (5, 2), (2, 2), (2, 2)],
            [(2, 2)] * 4,
        ]
        batches = [([torch.zeros(shape) for shape in one], "names") for one in shapes]
        self.assertEqual(self.answers(batches, 4), [True, True, True, False])

    def test_few_parts_may_be_something_else_than_samples(self):
        batches = [(torch.zeros(4), torch.zeros(2)), (torch.zeros(2), torch.zeros(4))]
        self.assertEqual(self.answers(batches, 2), [True, True])


if __name__ == "__main__":
    unittest.main()
