"""Ops on values of the host, which pass the observer by."""

import unittest

import torch

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.devices.host_ops import is_on_host, is_part

HOST, META = torch.ones(4, 3), torch.ones(4, 3, device="meta")
MIXED = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode

class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops.append(func)
        return func(*args, **(kwargs or {}))

host = torch.arange(12.0).view(4, 3)
with Seen() as seen:
    host.add(1)
assert seen.ops == [torch.ops.aten.add.Tensor], seen.ops
parts = torch.stack([host[0, 1:], host[1:3, 2] * 2, host[..., 0][:2]])
assert parts.tolist() == [[1.0, 2.0], [10.0, 16.0], [0.0, 3.0]], parts
assert not parts.is_cuda and host[1].cuda().is_cuda
assert (host.mean() + torch.zeros(3, device="cuda")).is_cuda
weights = torch.ones(3, requires_grad=True)
(host @ weights).sum().backward()
assert weights.grad.tolist() == [18.0, 22.0, 26.0], weights.grad
torch.manual_seed(1)
drawn = torch.empty(5).uniform_().tolist()
torch.manual_seed(1)
assert torch.rand(5).tolist() == drawn
assert torch.full((2,), 3.0).tolist() == [3.0, 3.0]
"""


class Which(unittest.TestCase):
    def test_those_that_are_given_values_of_the_host_alone(self):
        for func, args, kwargs in (
            (torch.Tensor.add, (HOST, 1), None),
            (torch.add, (HOST, HOST), {"alpha": 2}),
            (torch.cat, ([HOST, HOST], 1), None),
            (torch.where, (HOST > 0, HOST, 0.0), {}),
            (torch.add, (HOST, HOST), {"out": torch.empty(4, 3)}),
        ):
            with self.subTest(func=func.__name__):
                self.assertTrue(is_on_host(func, args, kwargs))

    def test_not_those_that_meet_a_gpu_or_name_a_device(self):
        for func, args, kwargs in (
            (torch.Tensor.add, (META, 1), None),
            (torch.Tensor.add, (HOST, META), None),
            (torch.cat, ([HOST, META],), None),
            (torch.add, (HOST, HOST), {"out": META}),
            (torch.zeros_like, (HOST,), {"device": "cuda"}),
            (torch.full, ((2,), 1), None),
        ):
            with self.subTest(func=func.__name__):
                self.assertFalse(is_on_host(func, args, kwargs))

    def test_not_those_with_more_to_do(self):
        own = HOST.as_subclass(type("Own", (torch.Tensor,), {}))
        for func, args in (
            # Is no op, costs nothing, and is not counted.
            (torch.Tensor.size, (HOST, 0)),
            # Many rows that are picked are left without values.
            (torch.index_select, (HOST, 0, torch.tensor([1]))),
            # Written in Python.
            (torch.Tensor.backward, (HOST,)),
            (torch.Tensor.add, (own, 1)),
        ):
            with self.subTest(func=func.__name__):
                self.assertFalse(is_on_host(func, args, None))

    def test_parts_by_numbers_and_not_by_places(self):
        for index in (0, slice(1, 3), (..., 0), (None, slice(None), 2)):
            with self.subTest(index=index):
                self.assertTrue(is_part(HOST, index))
                self.assertFalse(is_part(META, index))
        for index in ([0, 1], torch.tensor([0]), (slice(None), [0]), HOST > 0):
            with self.subTest(index=index):
                self.assertFalse(is_part(HOST, index))


class InAProgram(unittest.TestCase):
    def test_they_do_what_they_do_without_a_trace(self):
        self.assertTrue(rows_of(self, MIXED))
