"""Sizes are compared at once, and as SymPy and PyTorch compare them."""

import itertools
import math
import operator
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import sympy
import torch
from sympy import Eq, Ge, Gt, Le, Lt
from torch import _prims_common
from torch._inductor import compile_fx, lowering
from torch._inductor.sizevars import SizeVarAllocator
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kinds
from torch._subclasses import FakeTensorMode

from tracing.calls.test_calls import traced
from tracing.watching import rows_of

from plimsoll_trace.programs.compiling import beside
from plimsoll_trace.programs.compiling.repeated_work import results_once
from plimsoll_trace.programs.compiling.skipped_work import compared_once

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


# Results of operations on tensors without memory: remembered ones are those that PyTorch works out.


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


# Ops are found in tables by where they lie, from the first table on.

PACKAGE = Path(__file__).resolve().parents[3]
SHOWN = """
op = torch.ops.aten.add.Tensor
assert {op: 7}[op] == 7 and op in {op} and torch.ops.aten.mul.Tensor not in {op}
from torch._decomp import decomposition_table
assert torch.ops.aten.silu_backward.default in decomposition_table
assert (torch.empty(3, device="meta") + 1).shape == (3,)
print(hash(op) == object.__hash__(op))
"""
ASKED = "from plimsoll_trace.imports.fewer import hash_by_place as asked; asked()"


def shown(test, *lines):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "\n".join((*lines, SHOWN))],
        cwd=PACKAGE,
        capture_output=True,
        text=True,
        check=False,
    )
    test.assertEqual(done.returncode, 0, done.stderr)
    return done.stdout.strip()


class OpHashes(unittest.TestCase):
    def test_an_op_is_found_by_where_it_lies(self):
        self.assertEqual(shown(self, ASKED, "import torch"), "True")

    def test_tables_of_a_torch_that_is_imported_stay_as_they_are(self):
        self.assertEqual(shown(self, "import torch", ASKED), "False")


# Backward graphs of `torch.compile` are lowered by a fork, on a second core; without one, the answer is the same.

PROGRAM = """
import os
import torch
from torch import nn
from plimsoll_trace.programs.compiling import beside
from plimsoll_trace.programs.compiling.lowering import Lowering

os.sched_getaffinity = lambda _: set(range({cores}))
begin, forks, lowered, early = beside.begin, [], [], []
def counted(work):
    early.append(not lowered)
    forks.append(begin({work}))
    return forks[-1]
beside.begin = counted
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
        with mock.patch.object(beside, "begin", lambda work: (works.append(work), forks.pop(0))[1]):
            first, second = forks
            foreseen = beside.Ahead(lambda _, inputs: [one.stride() for one in inputs])
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


# Threads of a program: what they do on the GPU is counted, and what ends one of them ends the trace.

WORDS = """
import queue
import threading
import torch

model = torch.nn.Linear(1000, 10).cuda()
words = queue.Queue()

class Writer(threading.Thread):
    def run(self):
        batch = torch.zeros(3000, 1000).cuda()
        with torch.no_grad():
            for row in model(batch)[:5]:
                words.put(row.argmax().item())
        words.put(None)

Writer().start()
read = iter(words.get, None)
assert len(list(read)) == 5

def late():
    gate.wait()
    assert torch.zeros(2000, 1000, device="cuda").is_cuda

gate = threading.Event()
threading.Thread(target=late).start()
gate.set()
"""

WAITS = """
import queue
import threading
import torch

words = queue.Queue()

def write():
    words.put(torch.zeros(5, device="cuda").missing())

threading.Thread(target=write, daemon=True).start()
words.get()
"""


class ThreadsOfAProgram(unittest.TestCase):
    def test_what_a_thread_does_on_the_gpu_is_counted(self):
        asked = [row[2] for row in rows_of(self, WORDS) if isinstance(row, list) and row[0] == "a"]
        self.assertIn(3000 * 1000 * 4, asked)
        # That of a thread which the program does not wait for.
        self.assertIn(2000 * 1000 * 4, asked)

    def test_a_thread_that_fails_ends_a_program_that_waits_for_it(self):
        with tempfile.TemporaryDirectory() as folder:
            done = traced(folder, WAITS)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("AttributeError", done.stdout)
        self.assertIn("train.py:9", done.stdout)


if __name__ == "__main__":
    unittest.main()
