"""Draws of places: the first ones are those of the whole draw, which is not made for them."""

import unittest
from unittest import mock

import torch

from tracing import watching

from plimsoll.tracing import small_values
from plimsoll.tracing.choices import shuffling

MANY = 150_000


class Shuffling(unittest.TestCase):
    def test_the_first_are_those_of_the_whole(self):
        for count in (1, 2, 300, 5_000, MANY):
            for taken in (n for n in (0, 1, 17, 256, count) if n <= count):
                first = shuffling.first_shuffled(count, taken)
                self.assertTrue(torch.equal(first, shuffling.shuffled(count)[:taken]))
                self.assertEqual(first.dtype, torch.int64)

    def test_without_numpy_all_are_drawn(self):
        with mock.patch.object(shuffling, "numpy", None):
            first = shuffling.first_shuffled(MANY, 3)
        self.assertTrue(torch.equal(first, shuffling.shuffled(MANY)[:3]))

    def test_a_program_that_takes_the_first_draws_no_others(self):
        whole = shuffling.shuffled(MANY)
        with mock.patch.object(shuffling, "shuffled", side_effect=AssertionError):
            with watching.watched():
                taken = torch.randperm(MANY, device="meta")[:100]
                value = small_values.likely_value_of(taken)
                self.assertFalse(small_values.is_known(taken))
        self.assertTrue(torch.equal(value, whole[:100]))

    def test_all_others_are_there_as_well(self):
        for part in (slice(5, 9), slice(-3, None), slice(None, -MANY + 4), slice(0, 8, 2)):
            with watching.watched():
                value = small_values.likely_value_of(torch.randperm(MANY, device="meta")[part])
            self.assertTrue(torch.equal(value, shuffling.shuffled(MANY)[part]), part)
        with watching.watched():
            value = small_values.likely_value_of(
                torch.randperm(MANY, device="meta", dtype=torch.int32) + 1
            )
        self.assertEqual(value.dtype, torch.int32)
        self.assertTrue(torch.equal(value, shuffling.shuffled(MANY).int() + 1))
