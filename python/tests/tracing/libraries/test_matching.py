"""Divisions that are looked for in formulas are found as SymPy finds them."""

import unittest
from unittest import mock

from sympy import Basic, Integer, Wild, symbols
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from plimsoll_trace.programs.compiling.repeated_work import quickly_matched

i, j = symbols("i j", integer=True, nonnegative=True)
scale = Wild("scale", exclude=[0], integer=True)
base, divisor, modulus = (Wild(name, integer=True) for name in ("base", "divisor", "modulus"))
DIVISIONS = (
    ModularIndexing(i, 1, 32),
    32 * ModularIndexing(i, 32, 4),
    -7 * ModularIndexing(7 * i + j, 2, 5),
    ModularIndexing(ModularIndexing(i, 7, 8) + j, 1, 3),
)
FORMULAS = (
    *DIVISIONS,
    32 * FloorDiv(i, 32),
    FloorDiv(i, 32),
    3 * i,
    i,
    i + j,
    2 * i + j,
    i + 7 * j + 3,
    i + FloorDiv(i, 7),
    Integer(5),
    j * ModularIndexing(i, 1, 32),
    2 * ModularIndexing(i, 1, 32) * ModularIndexing(j, 4, 8),
    ModularIndexing(i, 1, 32) + 32 * ModularIndexing(i, 32, 4),
)
PATTERNS = (
    scale * ModularIndexing(base, divisor, modulus),
    ModularIndexing(base, divisor, modulus),
    32 * ModularIndexing(i, 32, modulus),
    ModularIndexing(i, 1, modulus),
    scale * ModularIndexing(base, 1, base),
    ModularIndexing(i, 1, 2 * modulus),
    32 * FloorDiv(i, 32),
    i + Wild("rest", exclude=[i]),
)


class Matches(unittest.TestCase):
    def test_are_those_of_sympy(self):
        quick = quickly_matched(Basic.match)
        found = 0
        for formula in FORMULAS:
            for pattern in PATTERNS:
                with self.subTest(formula=formula, pattern=pattern):
                    expected = Basic.match(formula, pattern)
                    self.assertEqual(quick(formula, pattern), expected)
                    found += expected is not None
        self.assertGreater(found, 10)

    def test_multiples_of_divisions_are_not_solved_for(self):
        solve = mock.Mock()
        quick = quickly_matched(solve)
        for formula in DIVISIONS:
            self.assertIsNotNone(quick(formula, PATTERNS[0]))
        self.assertIsNone(quick(i, PATTERNS[0]))
        solve.assert_not_called()
        self.assertEqual(quick(i + 7 * j, PATTERNS[-1]), {Wild("rest", exclude=[i]): 7 * j})
        solve.assert_not_called()
        quick(FORMULAS[-1], PATTERNS[0])
        solve.assert_called_once()


if __name__ == "__main__":
    unittest.main()
