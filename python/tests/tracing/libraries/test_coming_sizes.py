"""Sizes of compiled functions that a fork compiles before the program comes to them."""

import os
import signal
import time
import unittest
from itertools import groupby
from unittest import mock

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.compiling.likely_sizes import Loads, Size, likely
from plimsoll.tracing.programs.compiling.lowering_fork import Coming

# Eleven samples, four at a time: the last batch has three.
PROGRAM = """
import os
import torch
from torch.utils.data import DataLoader, TensorDataset

{before}
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
run = torch.compile(model)
train = DataLoader(TensorDataset(torch.zeros(11, 32)), 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for (x,) in train:
    run(x.cuda()).sum().backward()
    optimizer.step()
{after}
"""
# Which graphs this process lowers itself.
COUNTED = """
from plimsoll.tracing.programs.compiling.lowering import Lowering
lower, mine = Lowering._lower, []
def counted(self, graph, inputs, kind):
    mine.append(kind)
    return lower(self, graph, inputs, kind)
Lowering._lower = counted
"""
LOWERED_ONCE = "assert len(mine) == 1, mine"
# A fork is not made where there is one core.
ONE_CORE = "os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])"
# The evaluation is announced, but what comes is another size.
OTHER_EVALUATION = """
model.eval()
with torch.no_grad():
    run(torch.zeros(5, 32).cuda())
"""


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def events(rows):
    """What is freed between two requests is freed in any order: Python's collector decides."""
    found = [row for row in rows if isinstance(row, list)]
    alike = groupby(found, lambda row: row[0])
    return [row for kind, some in alike for row in (sorted(some) if kind == "f" else some)]


class LikelySizes(unittest.TestCase):
    def test_the_last_batch_of_the_loader_that_is_read(self):
        self.assertEqual(likely([256], Loads(256, 2400, False), [], False), [Size(96, True)])

    def test_none_where_the_last_batch_is_whole_or_left_out(self):
        self.assertEqual(likely([256], Loads(256, 512, False), [], False), [])
        self.assertEqual(likely([256], Loads(256, 2400, True), [], False), [])

    def test_an_evaluation_reads_the_other_loaders(self):
        found = likely([256], Loads(256, 2400, False), [Loads(512, 600, False)], True)
        self.assertEqual(found, [Size(96, True), Size(512, False), Size(88, False)])

    def test_one_with_the_same_batches_has_the_shapes_at_hand(self):
        read = Loads(128, 5120, True)
        self.assertEqual(
            likely([128, 128], read, [Loads(128, 512, False)], True), [Size(None, False)]
        )

    def test_one_with_less_than_a_batch_has_one_size(self):
        found = likely([64], Loads(64, 640, False), [Loads(64, 40, False)], True)
        self.assertEqual(found, [Size(40, False)])

    def test_without_a_loader_an_evaluation_has_the_shapes_at_hand(self):
        self.assertEqual(likely([16], None, [], True), [Size(None, False)])
        self.assertEqual(likely([16], None, [], False), [])

    def test_tensors_that_are_no_batches_of_the_loader_keep_their_shapes(self):
        found = likely([7], Loads(64, 650, False), [Loads(32, 650, False)], True)
        self.assertEqual(found, [Size(None, False)])


class Observer:
    def __init__(self):
        self.codes = {}
        self.on_op = None


@unittest.skipUnless(hasattr(os, "memfd_create"), "needs memory that processes share")
class CodesOfAFork(unittest.TestCase):
    def setUp(self):
        two = mock.patch.object(os, "sched_getaffinity", lambda _: {0, 1})
        two.start()
        self.addCleanup(two.stop)
        self.observer = Observer()
        self.coming = Coming(self.observer)
        self.addCleanup(self.coming.end)

    def writes(self, form, code, seconds=0.0):
        def work():
            time.sleep(seconds)
            self.observer.codes[form] = code

        return work

    def test_what_it_is_writing_is_waited_for(self):
        # Longer than a pipe holds.
        long = "x" * 300_000
        self.coming.begin({"short": self.writes("form", long, 0.2)})
        while self.coming._doing is None:
            self.coming._take(1_000)
        self.coming.meets("short")
        self.coming.find("form")
        self.assertEqual(self.observer.codes, {"form": long})

    def test_it_goes_on_after_a_pause(self):
        self.coming.begin({"short": self.writes("form", "code", 0.1)})
        self.coming.pause()
        self.coming._asked = self.coming._doing = "short"
        self.coming.find("form")
        self.assertEqual(self.observer.codes, {"form": "code"})

    def test_it_is_ended_where_the_program_comes_to_a_later_size_first(self):
        self.coming.begin({"first": lambda: time.sleep(60), "second": lambda: None})
        self.coming.meets("second")
        self.assertFalse(self.coming.works)
        self.coming.find("form")
        self.assertEqual(self.observer.codes, {})

    def test_nothing_is_waited_for_that_it_does_not_do(self):
        self.coming.begin({"first": lambda: time.sleep(60)})
        self.coming.meets("other")
        self.coming.find("form")
        self.assertEqual(self.observer.codes, {})

    def test_a_fork_that_fails_or_dies_gives_nothing(self):
        def dies():
            os.kill(os.getpid(), signal.SIGKILL)

        for work in (lambda: 1 / 0, dies):
            self.coming.begin({"first": work})
            self.coming._asked = self.coming._doing = "first"
            self.coming.find("form")
            self.assertEqual((self.observer.codes, self.coming.works), ({}, False))

    def test_what_it_prints_is_not_shown(self):
        reads, writes = os.pipe()
        kept = os.dup(1)
        os.dup2(writes, 1)
        try:
            self.coming.begin({"first": lambda: os.write(1, b"words")})
            self.coming._asked = self.coming._doing = "first"
            self.coming.find("form")
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            os.close(writes)
        self.assertEqual(os.read(reads, 9), b"")
        os.close(reads)


@unittest.skipIf(cores() < 2, "needs a second core")
class ProgramsWithComingSizes(unittest.TestCase):
    def test_a_short_last_batch_is_not_lowered_again_and_the_trace_is_the_same(self):
        alone = rows_of(self, PROGRAM.format(before=COUNTED + ONE_CORE, after=""))
        helped = rows_of(self, PROGRAM.format(before=COUNTED, after=LOWERED_ONCE))
        self.assertIn("torch.compile was followed", str(helped[-1]))
        self.assertEqual(events(helped), events(alone))

    def test_a_wrong_guess_changes_nothing(self):
        alone = rows_of(self, PROGRAM.format(before=ONE_CORE, after=OTHER_EVALUATION))
        helped = rows_of(self, PROGRAM.format(before="", after=OTHER_EVALUATION))
        self.assertEqual(events(helped), events(alone))


if __name__ == "__main__":
    unittest.main()
