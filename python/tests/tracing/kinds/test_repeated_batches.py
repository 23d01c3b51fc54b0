"""A data set that is slow to read: batches that are all alike are not read again and again."""

import unittest

import torch

from tracing import PACKAGE  # noqa: F401

from plimsoll.tracing.programs.loops.repeated import Repeated


class RepeatedBatches(unittest.TestCase):
    def setUp(self):
        self.asked = []

    def fetch(self, index):
        self.asked.append(index)
        return {"images": torch.zeros(len(index), 2), "labels": torch.tensor(index)}

    def test_after_two_that_are_alike_the_last_is_given_again_as_a_copy(self):
        repeated = Repeated(seconds=0)
        for index in ([1, 2], [3, 4], [5, 6], [7, 8]):
            batch = repeated.fetch("train", index, self.fetch)
            batch["images"] += 1
        self.assertEqual(self.asked, [[1, 2], [3, 4]])
        self.assertEqual(batch["labels"].tolist(), [3, 4])
        self.assertEqual(batch["images"].tolist(), [[1, 1], [1, 1]])
        # The last of an epoch is shorter, and another data set is another.
        self.assertEqual(len(repeated.fetch("train", [9], self.fetch)["labels"]), 1)
        self.assertEqual(repeated.fetch("other", [7, 8], self.fetch)["labels"].tolist(), [7, 8])

    def test_batches_of_different_shapes_and_quick_ones_are_all_read(self):
        ragged = Repeated(seconds=0)
        lengths = iter((2, 3, 3, 3))
        read = [
            ragged.fetch("train", [0, 1], lambda index: torch.zeros(len(index), next(lengths)))
            for _ in range(4)
        ]
        self.assertEqual([batch.shape[1] for batch in read], [2, 3, 3, 3])
        quick = Repeated(seconds=3600)
        for _ in range(4):
            quick.fetch("train", [0, 1], self.fetch)
        self.assertEqual(len(self.asked), 4)


if __name__ == "__main__":
    unittest.main()
