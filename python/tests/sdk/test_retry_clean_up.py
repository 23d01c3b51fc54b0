"""What a retry gives back, on a simulated card: collecting garbage is slow, so only where cycles may hold memory."""

import unittest
from types import SimpleNamespace
from unittest import mock

from plimsoll.recovery.steps import retry

MIB = 1 << 20
RESTS = 500 * MIB
WORKSPACE = 33 * MIB


class SimulatedCard:
    """Memory in use: what rests, the workspace of cuBLAS until it is cleared, and what cycles hold."""

    def __init__(self, in_cycles):
        self.workspace, self.in_cycles = WORKSPACE, in_cycles

    def used_bytes(self):
        return RESTS + self.workspace + self.in_cycles

    def clear_workspaces(self):
        self.workspace = 0


def collects(in_cycles):
    """Whether a retry after a failure asks for a collection."""
    card = SimulatedCard(in_cycles)
    sizer = mock.Mock(peaks=SimpleNamespace(base_bytes=RESTS))
    fitting = mock.Mock(gauge=card, sizer=sizer)
    training = mock.Mock()
    training.gradients.held_bytes.return_value = 0
    made = retry.Retry(training, fitting, mock.Mock(), {})
    made._decision = SimpleNamespace(rung="smaller-microbatch", action="retry", microbatch=8)
    with (
        mock.patch.object(retry, "clear_workspaces", card.clear_workspaces),
        mock.patch.object(retry, "give_back_caches") as give_back,
    ):
        made.prepare(mock.Mock(), 16, mock.Mock())
    return give_back.call_args.kwargs["collect"]


class RetryCleanUp(unittest.TestCase):
    def test_the_workspace_of_cublas_is_no_reason_to_collect(self):
        self.assertFalse(collects(in_cycles=0))

    def test_memory_that_is_still_held_is(self):
        self.assertTrue(collects(in_cycles=200 * MIB))


if __name__ == "__main__":
    unittest.main()
