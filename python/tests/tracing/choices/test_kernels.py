"""Convolutions inside of `torch.compile`."""

import operator
import unittest
from unittest import mock

import torch

from tracing.kinds.traced_program import rows_of
from tracing.test_convolutions import problem

from plimsoll_trace.kernels import cudnn
from plimsoll_trace.kernels.cudnn_library import _Is
from plimsoll_trace.known_values import computing

PROGRAM = """
import torch
from torch import nn

m = nn.Sequential(nn.Conv2d(8, 48, 3, padding=1), nn.GELU(), nn.Conv2d(48, 8, 3, padding=1)).cuda()
run = torch.compile(m)
for _ in range(2):
    run(torch.zeros(16, 8, 64, 64).cuda()).sum().backward()
assert m[0].bias.grad.shape == (48,)
"""
BIAS = 48 * 4


class CompiledConvolutions(unittest.TestCase):
    def test_gradients_of_biases_are_sums_that_the_compiler_fuses(self):
        rows = rows_of(self, PROGRAM)
        names = {row[1]: row[2] for row in rows if isinstance(row, list) and row[0] == "s"}
        biases = [
            names[row[3]]
            for row in rows
            if isinstance(row, list) and row[0] == "a" and row[2] == BIAS
        ]
        self.assertIn("torch.compile was followed", str(rows[-1]))
        self.assertTrue(biases)
        self.assertNotIn("aten.convolution_backward.default", biases)


# Which of the kernels that cuDNN ranks is taken, and how many it is asked for.

LAYER = problem(4, 64, 30, 64, 3, pad=1)


@unittest.skipIf(cudnn.library() is None, "cuDNN comes with PyTorch's CUDA builds")
class Ranked(unittest.TestCase):
    def setUp(self):
        self.known = cudnn.library()
        self.asked = []
        own = self.known._descriptors

        def descriptors(owner, name, kind, most):
            if kind == _Is.CONFIG:
                self.asked.append(most)
            return own(owner, name, kind, most)

        counting = mock.patch.object(self.known, "_descriptors", descriptors)
        counting.start()
        self.addCleanup(counting.stop)

    def test_the_first_is_asked_for_alone(self):
        for which in ("forward", "grad_input", "grad_weight"):
            listed = self.known.tried(LAYER, which)
            self.asked.clear()
            self.assertEqual(self.known.choose(LAYER, which), listed[0])
            self.assertEqual(self.asked, [1])

    def test_the_next_ones_are_asked_for_where_it_cannot_be_built(self):
        listed = self.known.tried(LAYER, "forward")
        own, refused = self.known._plan, [True, True]

        def plan(layer, config):
            return None if refused and refused.pop() else own(layer, config)

        self.asked.clear()
        with mock.patch.object(self.known, "_plan", plan):
            self.assertEqual(self.known.choose(LAYER, "forward"), listed[2])
        self.assertEqual(len(self.asked), 2)

    def test_all_settings_of_a_kernel_are_read(self):
        listed = self.known.tried(LAYER, "forward")
        with mock.patch("plimsoll_trace.kernels.cudnn_library._FEW_KNOBS", 1):
            self.assertEqual(self.known.tried(LAYER, "forward"), listed)
        self.assertGreater(max(len(one.knobs) for one in listed), 1)


# Ops on many known values that numpy computes: the results are those of PyTorch, in its types.

ATEN = torch.ops.aten
MANY = 6000


def run(func, *args):
    return computing.run(func, list(args), {})


class Quicker(unittest.TestCase):
    def without_own(self, func):
        """The op is not to be run by PyTorch from now on."""

        def refused(*_):
            raise AssertionError(f"{func} was run by PyTorch")

        return mock.Mock(side_effect=refused, name=str(func))

    def assert_same(self, found, real):
        self.assertEqual(found.dtype, real.dtype)
        self.assertTrue(torch.equal(found, real))

    def test_comparisons(self):
        torch.manual_seed(0)
        drawn = torch.rand(3, MANY)
        drawn[0, :5] = torch.tensor([float("nan"), 0.3, float("inf"), -0.0, 0.0])
        whole = torch.randint(-2, 3, (MANY,))
        for name in ("eq", "ne", "lt", "le", "gt", "ge"):
            packet, compare = getattr(ATEN, name), getattr(operator, name)
            for values, number in ((drawn, 0.3), (drawn, 0), (drawn.double(), 0.3), (whole, -1)):
                own = self.without_own(packet.Scalar)
                found = computing.QUICKER[packet.Scalar](own, [values, number], {})
                self.assert_same(found, compare(values, number))
            own = self.without_own(packet.Tensor)
            found = computing.QUICKER[packet.Tensor](own, [drawn, drawn[:, 1:2]], {})
            self.assert_same(found, compare(drawn, drawn[:, 1:2]))

    def test_comparisons_of_several_types_are_left_to_pytorch(self):
        whole = torch.randint(-2, 3, (MANY,))
        drawn = torch.rand(MANY)
        self.assert_same(run(ATEN.lt.Scalar, whole, 0.5), whole < 0.5)
        self.assert_same(run(ATEN.lt.Tensor, whole, drawn), whole < drawn)
        self.assert_same(run(ATEN.lt.Scalar, drawn.half(), 0.3), drawn.half() < 0.3)
        self.assert_same(run(ATEN.eq.Scalar, drawn, True), drawn == True)  # noqa: E712
        self.assert_same(run(ATEN.gt.Scalar, drawn.requires_grad_(), 0.3), drawn > 0.3)

    def test_the_largest_of_rows_and_columns_are_the_first_of_equals(self):
        torch.manual_seed(0)
        values = torch.randint(0, 4, (7, MANY)).float()
        for dim in (0, 1, -1, -2):
            own = self.without_own(ATEN.max.dim)
            largest, places = computing.QUICKER[ATEN.max.dim](own, [values, dim], {})
            real = values.max(dim)
            self.assert_same(largest, real.values)
            self.assert_same(places, real.indices)

    def test_what_is_no_number_counts_as_the_largest(self):
        values = torch.rand(7, MANY)
        values[3, 5] = float("nan")
        for dim in (0, 1):
            largest, places = run(ATEN.max.dim, values, dim)
            self.assertTrue(largest.isnan().any())
            self.assert_same(places, values.max(dim).indices)

    def test_other_forms_are_left_to_pytorch(self):
        for values in (torch.rand(200, 50), torch.rand(MANY, 3).T, torch.rand(2, 50, 70)):
            largest, places = run(ATEN.max.dim, values, 0)
            self.assert_same(largest, values.max(0).values)
            self.assert_same(places, values.max(0).indices)

    def test_marked_places(self):
        torch.manual_seed(0)
        mask = torch.rand(3, MANY) < 0.01
        for marks in (mask, mask[0].clone(), mask.byte() * 200):
            own = self.without_own(ATEN.nonzero.default)
            found = computing.QUICKER[ATEN.nonzero.default](own, [marks], {})
            self.assert_same(found, marks.nonzero())


if __name__ == "__main__":
    unittest.main()
