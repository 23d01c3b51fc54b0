"""Which of the kernels that cuDNN ranks is taken, and how many it is asked for."""

import unittest
from unittest import mock

from tracing.test_convolutions import problem

from plimsoll.tracing.kernels import cudnn
from plimsoll.tracing.kernels.cudnn_library import _Is

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
        with mock.patch("plimsoll.tracing.kernels.cudnn_library._FEW_KNOBS", 1):
            self.assertEqual(self.known.tried(LAYER, "forward"), listed)
        self.assertGreater(max(len(one.knobs) for one in listed), 1)


if __name__ == "__main__":
    unittest.main()
