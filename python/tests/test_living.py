"""What is known of objects is forgotten with them."""

import gc
import unittest

import torch

from tracing import PACKAGE  # noqa: F401 - puts the package on the path

from plimsoll.living import Living


class Gone(unittest.TestCase):
    def test_what_is_known_of_an_object_ends_with_it(self):
        known = Living()
        first = torch.nn.Linear(2, 2)
        known.add(first, "head")
        known.add(first, "another")
        self.assertIn(first, known)
        self.assertEqual(known.of(first, ""), "head")
        number = id(first)
        del first
        gc.collect()
        # Until one of the new ones gets the number of the old.
        others = []
        while len(others) < 10_000 and (not others or id(others[-1]) != number):
            others.append(torch.nn.Linear(2, 2))
        self.assertFalse([one for one in others if one in known])
        self.assertEqual(known.of(others[-1], "none"), "none")

    def test_tensors_are_not_compared(self):
        known = Living()
        weight, same = torch.ones(3), torch.ones(3)
        known.add(weight, None)
        self.assertIn(weight, known)
        self.assertNotIn(same, known)


if __name__ == "__main__":
    unittest.main()
