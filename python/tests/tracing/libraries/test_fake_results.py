"""Results of operations on tensors without memory: remembered ones are those that PyTorch works out."""

import operator
import unittest
from unittest import mock

import torch
from torch._inductor import compile_fx
from torch._subclasses import FakeTensorMode

from plimsoll.tracing.programs.compiling.fake_results import results_once


def form(tensor):
    return (
        *(tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype, tensor.device),
        tensor.requires_grad,
    )


def of_storage(first, second):
    return first.untyped_storage()._cdata == second.untyped_storage()._cdata


OPERATIONS = (
    lambda x: x + 1,
    lambda x: x + True,
    lambda x: x.to(torch.float16) + x,
    lambda x: x[1:, 2:].t(),
    lambda x: x.t().reshape(-1),
    lambda x: x.t() @ x,
    lambda x: x.add_(1),
    lambda x: torch.cat([x, x.double()]),
    lambda x: torch.var_mean(x, dim=1),
    lambda x: x.split(2)[1],
    lambda x: torch.ops.aten._unsafe_view(x.t(), [-1]),
)


def run(operation, mode):
    given = torch.empty_strided((4, 6), (1, 4), device="cpu")
    with torch.no_grad(), mode:
        result = operation(mode.from_tensor(given))
    return result if isinstance(result, tuple) else (result,)


class FakeResults(unittest.TestCase):
    def test_a_second_time_they_have_the_same_form(self):
        for place, operation in enumerate(OPERATIONS):
            with self.subTest(place):
                real = run(operation, FakeTensorMode())
                with results_once():
                    mode = FakeTensorMode()
                    run(operation, mode)
                    again = run(operation, mode)
                self.assertEqual([form(one) for one in again], [form(one) for one in real])

    def test_pytorch_is_asked_once(self):
        with results_once():
            mode = FakeTensorMode()
            run(lambda x: x.t() * 2, mode)
            with mock.patch.object(mode, "_cache_key", side_effect=AssertionError):
                run(lambda x: x.t() * 2, mode)
                with self.assertRaises(AssertionError):
                    run(lambda x: x.t() * 2.0, mode)

    def test_views_lie_in_what_they_view_and_others_in_memory_of_their_own(self):
        with results_once(), FakeTensorMode() as mode, torch.no_grad():
            for _ in range(2):
                given = mode.from_tensor(torch.empty(4, 6))
                self.assertTrue(of_storage(given, given[2:].t()))
                self.assertFalse(of_storage(given, given + 1))
                self.assertIs(given.add_(1), given)

    def test_tensors_with_values_are_computed(self):
        with results_once(), FakeTensorMode(), torch.no_grad():
            for number in (3, 5):
                self.assertEqual((torch.tensor(number) + 1).item(), number + 1)

    def test_gradients_are_known(self):
        with results_once(), FakeTensorMode() as mode:
            for needed in (False, True, False):
                given = mode.from_tensor(torch.empty(4, 6, requires_grad=needed))
                self.assertEqual((given * 2).requires_grad, needed)


def graph_of_reshapes():
    graph, aten = torch.fx.Graph(), torch.ops.aten
    given = graph.placeholder("given")
    first = graph.call_function(aten.reshape.default, (given, [6, 4]))
    second = graph.call_function(aten.reshape.default, (given, [6, 4]))
    more = graph.call_function(aten.add.Tensor, (first, 1))
    parts = graph.call_function(aten.split.Tensor, (more, 3))
    part = graph.call_function(operator.getitem, (parts, 0))
    graph.output((second, part))
    return torch.fx.GraphModule({}, graph)


class Values(unittest.TestCase):
    def values(self, *strides):
        """Of each node of a graph, for inputs that lie in memory in these ways."""

        with FakeTensorMode() as mode:
            given = [torch.empty_strided((4, 6), one) for one in strides]
        graph = graph_of_reshapes()
        for one in given:
            for node in graph.graph.nodes:
                node.meta.pop("val", None)
            with torch.no_grad():
                self.assertIs(compile_fx.fake_tensor_prop(graph, [one], True), mode)
            yield [node.meta.get("val") for node in graph.graph.nodes if node.op != "output"]

    def test_they_are_those_of_pytorch(self):
        layouts = ((6, 1), (1, 4), (6, 1))
        real = list(self.values(*layouts))
        with results_once():
            found = list(self.values(*layouts))
        for mine, theirs in zip(found, real):
            self.assertEqual(len(mine), len(theirs))
            for one, other in zip(mine, theirs):
                several = isinstance(other, (list, tuple))
                pairs = zip(one, other) if several else [(one, other)]
                for left, right in pairs:
                    self.assertEqual(form(left), form(right))

    def test_a_view_shares_memory_and_a_copy_does_not(self):
        with results_once():
            for strides, shared in (((6, 1), True), ((1, 4), False)):
                for given, first, second, *_ in self.values(strides, strides):
                    self.assertEqual(of_storage(given, first), shared)
                    self.assertEqual(of_storage(first, second), shared)


if __name__ == "__main__":
    unittest.main()
