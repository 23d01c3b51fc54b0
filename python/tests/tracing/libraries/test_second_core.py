"""Backward graphs of `torch.compile` are lowered by a fork, on a second core; without one, the answer is the same."""

import os
import signal
import sys
import time
import unittest
from unittest import mock

import torch

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.compiling import ahead, beside

PROGRAM = """
import os
import torch
from torch import nn
from plimsoll.tracing.programs.compiling import ahead, beside
from plimsoll.tracing.programs.compiling.lowering import Lowering

os.sched_getaffinity = lambda _: set(range({cores}))
begin, forks, lowered, early = ahead.begin, [], [], []
def counted(work):
    early.append(not lowered)
    forks.append(begin({work}))
    return forks[-1]
ahead.begin = counted
lower = Lowering._lower
def here(self, graph, inputs, kind):
    lowered.append(kind)
    return lower(self, graph, inputs, kind)
Lowering._lower = here

{model}
run = torch.compile(model)
for _ in range(2):
    run(x).square().mean().backward()
assert {expected}, (forks, lowered, early)
try:
    os.waitpid(-1, os.WNOHANG)
    raise AssertionError("a process is left")
except ChildProcessError:
    pass
"""
PLAIN = """
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 64)).cuda()
x = torch.zeros(4096, 64).cuda()
"""
# Inductor pads the rows of what it keeps.
ODD = """
model = nn.Sequential(nn.Linear(64, 1025), nn.Softplus(), nn.LayerNorm(1025), nn.Linear(1025, 64)).cuda()
x = torch.zeros(4096, 64).cuda()
"""
# Inductor lays these out with channels last.
CONVOLUTIONS = """
def block(inputs):
    return nn.Conv2d(inputs, 96, 3, padding=1), nn.BatchNorm2d(96), nn.ReLU()
model = nn.Sequential(*block(3), *block(96), nn.AdaptiveAvgPool2d(1)).cuda()
x = torch.zeros(16, 3, 64, 64).cuda()
"""
THERE, HERE = "lowered == [{}]", "lowered == [{}, {'is_backward': True}]"


@unittest.skipUnless(sys.platform == "linux", "no forks elsewhere")
class BackwardBeside(unittest.TestCase):
    def rows(self, expected, **settings):
        program = PROGRAM.format(**{"cores": 2, "work": "work", "expected": expected, **settings})
        rows = rows_of(self, program)
        self.assertIn("torch.compile was followed", str(rows[-1]))
        # The first names the file, the last says how long it took.
        return rows[1:-1]

    def test_the_trace_is_that_of_one_core(self):
        for model in (PLAIN, ODD, CONVOLUTIONS):
            with self.subTest(model):
                # One fork, before forward is lowered: the layout was guessed.
                two = self.rows(f"early == [True] and {THERE}", model=model)
                one = self.rows(f"not any(forks) and {HERE}", model=model, cores=1)
                self.assertEqual(sorted(map(str, one)), sorted(map(str, two)))

    def test_a_fork_that_dies_is_made_up_for(self):
        dies = "lambda: os._exit(1)"
        died = self.rows(f"any(forks) and {HERE}", model=PLAIN, work=dies)
        self.assertEqual(died, self.rows(HERE, model=PLAIN, cores=1))


class Guesses(unittest.TestCase):
    def test_the_work_begins_anew_where_forward_has_another_layout(self):
        graph = torch.fx.Graph()
        for name in ("kept", "gradient"):
            graph.placeholder(name).meta["val"] = torch.empty(4, 8, device="meta")
        graph.output(())
        works, forks = [], [mock.Mock(), mock.Mock()]
        with mock.patch.object(ahead, "begin", lambda work: (works.append(work), forks.pop(0))[1]):
            first, second = forks
            foreseen = ahead.Ahead(lambda _, inputs: [one.stride() for one in inputs])
            foreseen.begin()
            self.assertEqual(works, [])
            foreseen.guess(torch.fx.GraphModule({}, graph))
            foreseen.begin()
            foreseen.begin([(8, 1)])
            self.assertEqual(len(works), 1)
            first.end.assert_not_called()
            foreseen.begin([(1, 4)])
        first.end.assert_called_once()
        self.assertEqual([work() for work in works][1], [(1, 4), (8, 1)])
        like_it = torch.empty(8, 4, device="meta").t(), torch.empty(4, 8, device="meta")
        self.assertIs(foreseen.code(list(like_it)), second.result.return_value)
        self.assertIsNone(foreseen.code([like_it[1], like_it[1]]))
        foreseen.end()
        second.end.assert_called_once()


@unittest.skipUnless(sys.platform == "linux", "no forks elsewhere")
class Beside(unittest.TestCase):
    def setUp(self):
        cores = mock.patch.object(os, "sched_getaffinity", lambda _: {0, 1})
        cores.start()
        self.addCleanup(cores.stop)

    def assert_nothing_runs(self, fork):
        with self.assertRaises(ChildProcessError):
            os.waitpid(fork._pid, os.WNOHANG)

    def test_gives_what_the_fork_returns(self):
        long = "x" * (1 << 20)
        fork = beside.begin(lambda: (os.getpid(), long))
        pid, text = fork.result()
        self.assertEqual((pid, text), (fork._pid, long))
        self.assertNotEqual(pid, os.getpid())
        self.assert_nothing_runs(fork)

    def test_faults_give_nothing(self):
        killed = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        for work in (lambda: 1 / 0, killed, sys.exit, lambda: lambda: None):
            fork = beside.begin(work)
            self.assertIsNone(fork.result())
            self.assert_nothing_runs(fork)

    def test_one_that_hangs_is_ended(self):
        with mock.patch.object(beside, "_PATIENCE_MS", 10):
            fork = beside.begin(lambda: time.sleep(1000))
            self.assertIsNone(fork.result())
        self.assert_nothing_runs(fork)

    def test_one_that_takes_long_is_waited_for(self):
        ran = iter(range(1, 1000))
        waits = mock.patch.object(beside, "_PATIENCE_MS", 10)
        works = mock.patch.object(beside, "spent", lambda _: next(ran))
        with waits, works:
            self.assertEqual(beside.begin(lambda: time.sleep(0.2) or 7).result(), 7)
        self.assertGreater(next(ran), 2)

    def test_how_long_a_process_ran_is_told(self):
        before = beside.spent(os.getpid())
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
        self.assertGreater(beside.spent(os.getpid()), before)

    def test_one_that_nobody_needs_is_ended(self):
        fork = beside.begin(lambda: time.sleep(1000))
        fork.end()
        self.assert_nothing_runs(fork)
        self.assertIsNone(fork.result())

    def test_needs_a_second_core(self):
        with mock.patch.object(os, "sched_getaffinity", lambda _: {0}):
            self.assertIsNone(beside.begin(lambda: 1))

    def test_ends_with_its_parent(self):
        reads, writes = os.pipe()
        parent = os.fork()
        if parent == 0:
            beside.begin(lambda: (os.write(writes, b"x"), time.sleep(1000)))
            os.read(reads, 0)
            time.sleep(1000)
        os.close(writes)
        self.assertEqual(os.read(reads, 1), b"x")
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
        # The other end of the pipe is closed once the fork is gone, too.
        self.assertEqual(os.read(reads, 1), b"")
        os.close(reads)


if __name__ == "__main__":
    unittest.main()
