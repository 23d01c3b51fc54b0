"""Sizes are compared at once, and as SymPy and PyTorch compare them."""

import itertools
import math
import unittest
from unittest import mock

import sympy
import torch
from sympy import Eq, Ge, Gt, Le, Lt
from torch import _prims_common
from torch._inductor import lowering
from torch._inductor.sizevars import SizeVarAllocator
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kinds

from plimsoll.tracing.programs.compiling.quicker import compared_once

i, j = sympy.symbols("i j", integer=True, nonnegative=True)
VALUES = (0, 3, True, sympy.Integer(3), sympy.Integer(-1), sympy.Rational(7, 2), 3.0, i, i + 1, j)


def compared():
    return [
        sympy.srepr(kind(left, right))
        for kind in (Eq, Ge, Gt, Le, Lt, sympy.Ne)
        for left, right in itertools.product(VALUES, VALUES)
        # SymPy does not order truth values.
        if kind in (Eq, sympy.Ne) or True not in (left, right)
    ]


def _laid_out(layout):
    return torch.empty_strided(*layout, device="meta")


class Sized:
    def __init__(self, dtype, *shape):
        self.dtype, self.shape = dtype, shape

    def get_dtype(self):
        return self.dtype

    def get_size(self):
        return self.shape


class Comparisons(unittest.TestCase):
    def test_are_those_of_sympy(self):
        plain = compared()
        with compared_once():
            self.assertEqual(compared(), plain)
            self.assertEqual(compared(), plain)
            self.assertEqual(
                sympy.srepr(Eq(1, 1, evaluate=False)), "Equality(Integer(1), Integer(1))"
            )

    def test_whether_a_tensor_has_gaps_is_asked_once(self):
        layouts = (
            ((4, 3), (3, 1)),
            ((4, 3), (1, 4)),
            ((4, 3), (6, 1)),
            ((1, 1), (9, 9)),
            ((5,), (2,)),
        )
        plain = [_prims_common._is_non_overlapping_and_dense_or_false(*one) for one in layouts]
        self.assertEqual(plain, [True, True, False, True, False])
        with compared_once(), mock.patch.object(_prims_common, "prod", wraps=math.prod) as prod:
            for _ in range(3):
                dense = map(
                    _prims_common.is_non_overlapping_and_dense_or_false, map(_laid_out, layouts)
                )
                self.assertEqual(list(dense), plain)
        self.assertEqual(prod.call_count, len(layouts))

    def test_numbers_are_not_given_to_sympy(self):
        with mock.patch("sympy.core.relational.is_eq") as is_eq, compared_once():
            self.assertIs(Eq(sympy.Integer(2), 2), sympy.true)
        is_eq.assert_not_called()

    def test_formulas_are_compared_once(self):
        from sympy.core import relational

        with mock.patch.object(relational, "is_ge", wraps=relational.is_ge) as is_ge:
            with compared_once():
                for _ in range(3):
                    self.assertIs(Ge(i, 0), sympy.true)
        self.assertEqual(is_ge.call_count, 1)

    def test_whether_a_formula_is_constant_is_asked_once(self):
        formulas = i * (i + 1) - i**2 - i, i * (j + 1), sympy.Mod(i, 4) + j
        plain = [one.is_constant() for one in formulas]
        self.assertIn(True, plain)
        with mock.patch.object(sympy.Expr, "is_constant", autospec=True) as ask:
            ask.side_effect = plain
            with compared_once():
                for _ in range(3):
                    self.assertEqual([one.is_constant() for one in formulas], plain)
        self.assertEqual(ask.call_count, 3)

    def test_known_answers_need_no_guards(self):
        with compared_once():
            sizes = SizeVarAllocator()
            with mock.patch.object(sizes.shape_env, "evaluate_expr") as ask:
                self.assertTrue(sizes.guard_or_false(Eq(2, 2)))
                self.assertFalse(sizes.guard_or_true(Lt(2, 2)))
        ask.assert_not_called()


class Types(unittest.TestCase):
    def test_are_those_of_pytorch(self):
        half, ints, scalar = Sized(torch.half, 4), Sized(torch.int64, 4), Sized(torch.float32)
        asked = [
            (arguments, kind)
            for arguments in ((half, ints), (half, scalar), (ints, 2), (ints, 2.0), (ints, True))
            for kind in (Kinds.DEFAULT, Kinds.INT_TO_FLOAT, Kinds.ALWAYS_BOOL)
        ]

        def found():
            return [
                lowering.get_promoted_dtype(*one, type_promotion_kind=how) for one, how in asked
            ]

        plain = found()
        with compared_once():
            self.assertEqual(found(), plain)
            with mock.patch.object(torch, "zeros") as made:
                self.assertEqual(found(), plain)
        made.assert_not_called()


if __name__ == "__main__":
    unittest.main()
