"""The buffer between blocks of a reduction, against sizes recorded on an H200."""

import unittest

from plimsoll.tracing.gpu import H200
from plimsoll.tracing.kernels.reductions import Shape, buffer_sizes


def over_rows(rows, columns):
    return buffer_sizes(H200, Shape((rows, columns), (columns, 1), (True, False)), 4)


class Reductions(unittest.TestCase):
    def test_sums_over_rows_go_through_a_buffer(self):
        self.assertEqual(over_rows(16384, 768), (100663296, 24))
        self.assertEqual(over_rows(16384, 3072), (138412032, 96))
        self.assertEqual(over_rows(16384, 2304), (139198464, 72))
        self.assertEqual(over_rows(2048, 32000), (147456000, 1000))

    def test_few_rows_need_none(self):
        self.assertIsNone(over_rows(64, 4096))

    def test_sums_over_pixels_keep_one_value_a_block(self):
        shape = Shape((64, 64, 224 * 224), (64 * 224 * 224, 224 * 224, 1), (True, False, True))
        self.assertEqual(buffer_sizes(H200, shape, 4), (6400, 256))

    def test_dimensions_that_lie_in_one_run_are_one(self):
        shape = Shape((4, 8, 16), (128, 16, 1), (True, True, False))
        self.assertEqual((shape.sizes, shape.reduce_dims), ([32, 16], 1))
