"""When kernels of some kinds first run, beside where an H200's driver took address space."""

import unittest

import torch

from tracing.watching import watched


def launched(observer):
    return [event[1] for event in observer.ledger.events if event[0] == "k"]


class Launches(unittest.TestCase):
    def test_a_model_that_is_only_laid_out_runs_none(self):
        with watched() as observer:
            weight = torch.empty(64, 64, device="meta")
            torch.nn.init.normal_(weight).view(-1)
            self.assertEqual(launched(observer), [])

    def test_the_first_that_fills_is_the_first_and_each_kind_counts_once(self):
        with watched() as observer:
            ones = torch.ones(64, device="meta")
            self.assertEqual(launched(observer), ["kernel"])
            torch.relu(ones + ones)
            self.assertEqual(launched(observer), ["kernel"])
            ones.mean()
            torch.nn.functional.embedding(
                torch.zeros(3, dtype=torch.long, device="meta"), ones[:, None]
            )
            self.assertEqual(launched(observer), ["kernel", "checking"])

    def test_a_number_to_the_power_of_a_tensor_checks(self):
        with watched() as observer:
            torch.arange(4.0, device="meta") ** 2
            self.assertEqual(launched(observer), ["kernel"])
            10000 ** torch.arange(4.0, device="meta")
            self.assertEqual(launched(observer), ["kernel", "checking"])

    def test_convolutions_of_lines_differ_from_those_of_images(self):
        for dims, kind in ((1, "lines"), (2, "images")):
            with self.subTest(dims=dims), watched() as observer:
                x = torch.empty(2, 3, *[8] * dims, device="meta")
                weight = torch.empty(4, 3, *[3] * dims, device="meta")
                convolve = torch.conv1d if dims == 1 else torch.conv2d
                convolve(convolve(x, weight), torch.empty(4, 4, *[3] * dims, device="meta"))
                self.assertEqual(launched(observer), ["kernel", kind])


if __name__ == "__main__":
    unittest.main()
