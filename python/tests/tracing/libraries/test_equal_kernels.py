"""Kernels that are alike are written once, and patterns that cannot be in a graph are not looked for."""

import unittest
from unittest import mock

import sympy
import torch
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, ListOf, MultiOutputPattern

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.compiling.equal_kernels import key
from plimsoll.tracing.programs.compiling.quicker import needed, possible_patterns

aten = torch.ops.aten
MODEL = """
import contextlib
import os
import torch
from torch import nn
from torch._inductor.codegen.triton import TritonKernel
import plimsoll.tracing.programs.compiling.quicker as quicker

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(nn.functional.dropout(nn.functional.gelu(self.up(self.norm(x))), 0.1))

# All kernels are counted here: none is written by a fork.
os.sched_getaffinity = lambda _: {{0}}
written = []
write = TritonKernel.codegen_kernel
def counted(self, name=None):
    written.append(self)
    return write(self, name)
TritonKernel.codegen_kernel = counted
{change}
model = nn.Sequential(*(Layer() for _ in range({layers}))).cuda()
run = torch.compile(model)
x = torch.zeros(4096, 64).cuda()
for _ in range(2):
    run(x).square().mean().backward()
assert {expected}, len(written)
"""
ALL = "quicker.written_once = contextlib.nullcontext"


class EqualKernels(unittest.TestCase):
    def rows(self, **settings):
        rows = rows_of(self, MODEL.format(**settings))
        self.assertIn("torch.compile was followed", str(rows[-1]))
        # The first names the file.
        return rows[1:-1]

    def test_the_trace_is_that_of_kernels_which_are_all_written(self):
        once = self.rows(change="", layers=4, expected="len(written) < 30")
        every = self.rows(change=ALL, layers=4, expected="len(written) > 40")
        self.assertEqual(once, every)


class Keys(unittest.TestCase):
    def test_formulas_are_compared_and_not_written(self):
        i = sympy.Symbol("i", integer=True)
        with (
            mock.patch.object(sympy.Basic, "__str__", None),
            mock.patch.object(sympy.Basic, "__repr__", None),
        ):
            one, other = key({"x": [i + 1, 3]}), key({"x": [1 + i, sympy.Integer(3)]})
            self.assertEqual((one, hash(one)), (other, hash(other)))
            self.assertNotEqual(one, key({"x": [i + 2, 3]}))

    def test_numbers_of_other_kinds_are_others(self):
        self.assertEqual(len({key([1]), key([True]), key([1.0]), key(["1"])}), 4)


class Patterns(unittest.TestCase):
    def test_each_operation_of_a_pattern_is_needed(self):
        inner = CallFunction(aten.exp.default, KeywordArg("x"))
        pattern = CallFunction([aten.add.Tensor, aten.sub.Tensor], inner, ListOf(inner))
        groups = {frozenset([aten.add.Tensor, aten.sub.Tensor]), frozenset([aten.exp.default])}
        self.assertEqual(needed(pattern), groups)
        self.assertEqual(needed(MultiOutputPattern([pattern, None, inner])), groups)

    def test_a_pattern_is_tried_once_the_graph_has_all_of_its_operations(self):
        graph = torch.fx.Graph()
        given = graph.placeholder("x")
        total = graph.call_function(aten.add.Tensor, (given, given))
        whole = CallFunction(aten.add.Tensor, KeywordArg("x"), KeywordArg("y"))
        part = CallFunction(
            aten.add.Tensor, CallFunction(aten.exp.default, KeywordArg("x")), KeywordArg("y")
        )
        with mock.patch.object(CallFunction, "_match", return_value="tried"), possible_patterns():
            self.assertEqual(whole.match(total), "tried")
            self.assertFalse(part.match(total))
            with graph.inserting_before(total):
                graph.call_function(aten.exp.default, (given,))
            self.assertEqual(part.match(total), "tried")


if __name__ == "__main__":
    unittest.main()
