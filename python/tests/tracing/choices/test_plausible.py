"""Values that are taken for granted of tensors in host memory: they end with the tensor."""

import unittest
from types import SimpleNamespace

import torch

from plimsoll.tracing.programs.values import PlausibleScalars
from plimsoll.tracing.scalars import UNKNOWN

ATEN = torch.ops.aten


def another_at(address):
    """A tensor whose storage got the address of one that is gone."""
    return SimpleNamespace(untyped_storage=lambda: SimpleNamespace(_cdata=address))


class HostMemory(unittest.TestCase):
    def after_its_end(self, scalars, tensor):
        address = tensor.untyped_storage()._cdata
        self.assertIsNot(scalars.known(another_at(address)), UNKNOWN)
        del tensor
        return address

    def test_numbers_that_were_drawn_are_forgotten_with_their_tensor(self):
        scalars = PlausibleScalars()
        drawn = [torch.randint(0, 5, (10,))]
        scalars.notice(ATEN.randint.low, (0, 5, [10]), drawn[0])
        address = self.after_its_end(scalars, drawn.pop())
        self.assertIs(scalars.known(another_at(address)), UNKNOWN)
        self.assertFalse(scalars._is_place(another_at(address)))

    def test_what_is_taken_for_finite_is_forgotten_with_its_tensor(self):
        scalars = PlausibleScalars()
        finite = [torch.isfinite(torch.ones(3))]
        scalars.assume(finite[0], True)
        address = self.after_its_end(scalars, finite.pop())
        self.assertIs(scalars.known(another_at(address)), UNKNOWN)


if __name__ == "__main__":
    unittest.main()
