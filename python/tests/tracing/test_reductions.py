"""The buffer between blocks of a reduction, against sizes recorded on an H200."""

import unittest

import torch

from tracing.watching import Asked, watched

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

    def test_spreads_keep_four_numbers_of_each_part(self):
        # Of an autoencoder's 2048 samples: the result, the buffer, its semaphores.
        for spread in (torch.std, torch.var):
            with self.subTest(spread=spread.__name__), watched() as observer:
                samples = torch.empty(2048, 4096, device="meta")
                asked = Asked(observer)
                spread(samples, 0)
                self.assertEqual(asked.sizes(), [16384, 268435456, 128])

    def test_all_that_reduce_go_through_a_buffer(self):
        part = 268435456 // 16
        for reduced, kept, results in (
            (lambda x: x.amax(0), 4, [16384]),
            (lambda x: x.argmin(0), 16, [32768]),
            (lambda x: x.max(0), 16, [16384, 32768]),
            (lambda x: torch.std_mean(x, 0), 16, [16384, 16384]),
        ):
            with watched() as observer:
                samples = torch.empty(2048, 4096, device="meta")
                asked = Asked(observer)
                reduced(samples)
                self.assertEqual(asked.sizes(), [*results, kept * part, 128])

    def test_a_reduction_of_everything_is_one_of_all_dimensions(self):
        for reduced in (torch.var, torch.max, torch.argmax, torch.any):
            with self.subTest(reduced=reduced.__name__), watched() as observer:
                samples = torch.empty(2048, 4096, device="meta")
                asked = Asked(observer)
                reduced(samples)
                self.assertEqual(len(asked.sizes()), 3)

    def test_norms_of_many_tensors_are_summed_in_parts(self):
        # As clip_grad_norm_ asked for on an H200: a CodeGen of 101 parameters, an inpainting network of 60.
        for shapes, parts in (
            ([(51200, 1024)] + [(1024,)] * 100, 323200),
            ([(384, 192, 3, 3)] + [(384,)] * 59, 2640),
        ):
            with watched() as observer:
                gradients = [torch.empty(shape, device="meta") for shape in shapes]
                asked = Asked(observer)
                norms = torch._foreach_norm(gradients, 2.0)
                self.assertEqual(asked.sizes(), [parts] + [4] * len(norms))
                kinds = [event[0] for event in observer.ledger.events]
                self.assertEqual((kinds[-1], kinds.count("f")), ("f", 1))
                # Other orders, and tensors of several types, are worked out one by one.
                torch._foreach_norm(gradients, 3.0)
                self.assertNotIn(parts, asked.sizes())
                torch._foreach_norm([*gradients, gradients[0].half()], 2.0)
                self.assertNotIn(parts, asked.sizes())
