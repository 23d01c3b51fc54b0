"""Formulas of places in memory are worked out once, and are those that PyTorch works out."""

import sys
import unittest
from unittest import mock

import sympy
from torch._inductor import ir, sizevars, utils
from torch._inductor.sizevars import SizeVarAllocator
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from plimsoll_trace.programs.compiling.repeated_work import formulas_once

i, j, k = sympy.symbols("i j k0", integer=True, nonnegative=True)
RANGES = {i: sympy.Integer(8), j: sympy.Integer(32)}
FORMULAS = (
    32 * i + j,
    (i + 1) * (j + 2),
    FloorDiv(j, 32) + i,
    ModularIndexing(32 * i + j, 1, 32),
    ModularIndexing(i, 1, 4) + 4 * ModularIndexing(i, 4, 2),
    sympy.Integer(7),
)


class Formulas(unittest.TestCase):
    def test_are_those_of_pytorch(self):
        plain = [SizeVarAllocator().simplify_with_ranges(one, RANGES) for one in FORMULAS]
        with formulas_once():
            sizes = SizeVarAllocator()
            self.assertEqual([sizes.simplify_with_ranges(one, RANGES) for one in FORMULAS], plain)
            self.assertEqual(sizes.simplify(i * (j + 1)), i * j + i)

    def test_known_sizes_take_the_place_of_unknown_ones(self):
        with formulas_once():
            sizes = SizeVarAllocator()
            self.assertEqual(sizes.simplify(i + j), i + j)
            sizes.replacements[j] = sympy.Integer(3)
            self.assertEqual(sizes.simplify(i + j), i + 3)

    def test_are_made_simpler_without_the_units_of_physics(self):
        names = ("sympy.physics", "sympy.physics.units")
        there = {name: sys.modules.pop(name) for name in names if name in sys.modules}
        self.addCleanup(sys.modules.update, there)
        with formulas_once():
            self.assertEqual(sympy.simplify((4 * i + 8) / 4 + j), i + j + 2)
            # The whole of it has some thousand names.
            self.assertNotIn("meter", vars(sys.modules[names[1]]))
        self.assertFalse(set(names) & set(sys.modules))

    def test_variables_are_replaced_once(self):
        with (
            formulas_once(),
            mock.patch.object(
                sympy.Basic, "xreplace", autospec=True, side_effect=sympy.Basic.xreplace
            ) as replace,
        ):
            for _ in range(3):
                self.assertEqual(ir.sympy_subs(32 * i + j, {i: j, j: "k0"}), 32 * j + k)
            self.assertEqual(replace.call_count, 1)
            # Numbers of other kinds, and other names, are others.
            for by in (0, sympy.Integer(0), False, "k0", k):
                self.assertIs(type(ir.sympy_subs(i, {i: by})), type(k if by == "k0" else by))
        self.assertIs(ir.sympy_subs, utils.sympy_subs)

    def test_are_worked_out_once(self):
        with mock.patch.object(sympy, "expand", wraps=sympy.expand) as expand, formulas_once():
            sizes = SizeVarAllocator()
            for _ in range(3):
                sizes.simplify(i * (j + 1))
        self.assertEqual(expand.call_count, 1)

    def test_what_divides_nothing_needs_no_ranges(self):
        with formulas_once(), mock.patch.object(sizevars, "ValueRanges") as ranges:
            SizeVarAllocator()._simplify_with_ranges(32 * i + j, RANGES)
        ranges.assert_not_called()


class SmallestAndLargest(unittest.TestCase):
    def test_are_made_once_and_as_sympy_makes_them(self):
        plain = sympy.Min(i + 1, j, 5), sympy.Max(i, i + 1), sympy.Min(2.0, 3), sympy.Min(2, 3)
        with formulas_once():
            made = sympy.Min(i + 1, j, 5), sympy.Max(i, i + 1), sympy.Min(2.0, 3), sympy.Min(2, 3)
            self.assertIs(sympy.Min(i + 1, j, 5), made[0])
        self.assertEqual(list(map(sympy.srepr, made)), list(map(sympy.srepr, plain)))
        self.assertIsNot(sympy.Min(i + 1, j, 5), made[0])


if __name__ == "__main__":
    unittest.main()
