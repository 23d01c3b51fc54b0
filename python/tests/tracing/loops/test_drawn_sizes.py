"""Sizes that a program draws without a seed: the largest is among the first."""

import random
import unittest

import numpy as np

from plimsoll.tracing.programs.drawing import largest
from plimsoll.tracing.standins.patches import Patches

SIDES = [576, 384, 448, 512]


class DrawnSizes(unittest.TestCase):
    def setUp(self):
        self.addCleanup(random.setstate, random.getstate())
        self.addCleanup(np.random.set_state, np.random.get_state())
        patches = Patches()
        self.addCleanup(patches.undo)
        largest.install(patches)

    def test_the_largest_comes_second_at_each_place_that_draws(self):
        sides = [random.choice(SIDES) for _ in range(3)]
        pairs = [random.choice([(480, 640), (640, 640), (640, 480)]) for _ in range(3)]
        counts = [random.randint(4, 900) for _ in range(3)]
        steps = [random.randrange(320, 641, 64) for _ in range(3)]
        self.assertEqual((sides[1], pairs[1], counts[1], steps[1]), (576, (640, 640), 900, 640))

    def test_so_it_does_with_numpy_whose_numbers_keep_their_type(self):
        sides = [np.random.choice(SIDES) for _ in range(3)]
        counts = [np.random.randint(4, 900) for _ in range(3)]
        self.assertEqual((sides[1].item(), counts[1]), (576, 899))
        self.assertIs(type(sides[1]), type(sides[0]))
        # Arrays stay as drawn.
        self.assertEqual([len(np.random.randint(4, 900, 5)) for _ in range(2)], [5, 5])
        self.assertEqual([len(np.random.choice(SIDES, 3)) for _ in range(2)], [3, 3])

    def test_the_others_are_drawn_as_ever(self):
        draw = random._inst
        state = random.getstate()
        expected = [draw.choice(SIDES) for _ in range(20)]
        random.setstate(state)
        sides = [random.choice(SIDES) for _ in range(20)]
        self.assertEqual((sides[:1], sides[2:]), (expected[:1], expected[2:]))

    def test_a_program_with_a_seed_draws_what_it_draws_in_a_real_run(self):
        random.seed(3)
        draw = random.Random(3)
        self.assertEqual(
            [random.choice(SIDES) for _ in range(8)], [draw.choice(SIDES) for _ in range(8)]
        )

    def test_what_is_no_size_stays_as_drawn(self):
        for options in (["a", "b"], [0, 1], [1.5, 2.5], range(1000), [(2, "x")] * 2):
            for _ in range(2):
                state = random.getstate()
                drawn = random.choice(options)
                random.setstate(state)
                self.assertEqual(drawn, random._inst.choice(options))
