"""Rows of zeros with a one for each label: what CUDA asks for, and which values they hold."""

import unittest

import torch
import torch.nn.functional as F

from tracing.watching import Asked, watched

from plimsoll.tracing import small_values


class OneHot(unittest.TestCase):
    def test_it_asks_for_the_rows_alone(self):
        # As recorded on an H200, for the labels of pictures: no mask beside them.
        with watched() as observer:
            labels = torch.empty(16, 256, 256, dtype=torch.long, device="meta")
            asked = Asked(observer)
            rows = F.one_hot(labels, 24)
            self.assertEqual(asked.sizes(), [rows.numel() * 8])
        self.assertEqual((rows.shape, rows.dtype), ((16, 256, 256, 24), torch.long))

    def test_known_labels_make_known_rows_of_as_many_classes_as_there_are(self):
        labels = torch.tensor([2, 0, 1, 2])
        expected = F.one_hot(labels)
        for classes in (-1, 3):
            with watched():
                rows = F.one_hot(torch.arange(2, 6, device="meta") % 3, classes)
                self.assertTrue(torch.equal(small_values.value_of(rows), expected))

    def test_no_labels_make_no_rows(self):
        with watched():
            labels = torch.empty(0, dtype=torch.long, device="meta")
            self.assertEqual(F.one_hot(labels, 5).shape, (0, 5))


if __name__ == "__main__":
    unittest.main()
