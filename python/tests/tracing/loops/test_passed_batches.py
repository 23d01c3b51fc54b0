import os
import unittest

import torch

from plimsoll.tracing.programs.loops.reading_ahead import NotPassedOn, pack, unpack


class Batches(unittest.TestCase):
    def passed(self, value):
        words, file = pack(value)
        try:
            return unpack(words, file)
        finally:
            os.close(file)

    def test_tensors_keep_values_types_shapes_and_strides(self):
        large = torch.rand(3, 400, 600)
        given = [
            large,
            large.permute(1, 2, 0),
            torch.arange(5),
            torch.tensor(2.5),
            torch.tensor([True, False]),
            torch.rand(4).bfloat16(),
            torch.rand(3, 1).expand(3, 7),
            torch.empty(0, 4),
        ]
        for one, other in zip(given, self.passed(given)):
            self.assertTrue(torch.equal(one, other))
            self.assertEqual(
                (one.dtype, one.shape, one.stride()), (other.dtype, other.shape, other.stride())
            )
            self.assertIsNone(other._base)

    def test_what_is_one_tensor_stays_one(self):
        one = torch.zeros(2)
        first, second = self.passed({"a": one, "b": [one]}).values()
        self.assertIs(first, second[0])

    def test_what_is_given_can_be_written_to(self):
        given = self.passed(torch.zeros(1 << 19))
        given += 1
        self.assertEqual(given.sum().item(), 1 << 19)

    def test_what_may_not_be_the_same_elsewhere_is_refused(self):
        for one in (
            torch.zeros(2, device="meta"),
            torch.zeros(2, requires_grad=True),
            torch.nn.Parameter(torch.zeros(2)),
            torch.zeros(2).untyped_storage(),
            torch.nn.Linear(1, 1),
            torch.zeros(1000, 1000)[:, 0],
        ):
            self.assertRaises(NotPassedOn, pack, [one])


if __name__ == "__main__":
    unittest.main()
