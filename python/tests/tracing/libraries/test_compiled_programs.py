"""Graphs of `torch.compile`: what they keep, in which layout, and what their kernels are tried with."""

import gc
import os
import signal
import time
import unittest
import weakref
from itertools import groupby
from unittest import mock

import sympy
import torch
import torch._subclasses.fake_tensor as fakes
from torch._dynamo.eval_frame import OptimizedModule
from torch._functorch._aot_autograd import graph_compile
from torch._inductor import lowering
from torch._inductor.codecache import CacheBase
from torch._inductor.codegen import wrapper
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, ListOf, MultiOutputPattern
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx._lazy_graph_module import _get_graph_module_cls

from tracing.watching import rows_of

from plimsoll_trace.programs.compiling.entry import Calls, _compiled_model
from plimsoll_trace.programs.compiling.equal_kernels import key
from plimsoll_trace.programs.compiling.execution import Forms, forms
from plimsoll_trace.programs.compiling.likely_sizes import Loads, Size, evaluates, likely
from plimsoll_trace.programs.compiling.lowering_fork import Coming
from plimsoll_trace.programs.compiling.parts import Parts
from plimsoll_trace.programs.compiling.skipped_work import needed, possible_patterns, skipping_work

CONVOLUTIONS = """
import torch
from torch import nn

def block(inputs):
    return nn.Conv2d(inputs, 96, 3, padding=1, bias=False), nn.BatchNorm2d(96), nn.ReLU()

model = nn.Sequential(*block(3), *block(96), *block(96), nn.AdaptiveAvgPool2d(1)).cuda()
run = torch.compile(model)
x = torch.zeros(16, 3, 64, 64).cuda()
run(x).sum().backward()
"""
# Of one convolution, or of the ReLU behind it.
RESULT = 16 * 96 * 64 * 64 * 4

# Results that are not remembered because an argument belongs to another mode.
ONE_MODE = f"""{CONVOLUTIONS}
from torch._subclasses import FakeTensorMode
assert "not our fake" not in FakeTensorMode.cache_info().bypasses, FakeTensorMode.cache_info()
"""

FIRST_BATCH = """
import torch

run = torch.compile(torch.nn.Linear(256, 256).cuda())
x = torch.zeros(4096, 256).cuda()
run(x).sum().backward()
before = torch.cuda.memory_allocated()
del x
assert torch.cuda.memory_allocated() == before - 4096 * 256 * 4
"""

IN_PLACE = """
import torch

model = torch.nn.Linear(512, 512, bias=False).cuda()
run = torch.compile(lambda x: torch.relu(model(x) * 2 + 1))
run(torch.zeros(4096, 512).cuda()).sum().backward()
"""
PRODUCT = 4096 * 512 * 4

UNALIGNED = """
import torch

model = torch.nn.Linear(512, 1001, bias=False).cuda()
run = torch.compile(model)
x = torch.zeros(2048, 512).cuda()
with torch.no_grad():
    run(x)
    run(x)
"""
ALIGNED = 1004
TRIAL = "a product with and without padding"

KERNEL = """
import triton
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties

@triton_heuristics.{kind}(
    size_hints={hints},
    {more}
    filename=__file__,
    triton_meta={{'signature': {{'in_out_ptr0': '*fp32', 'in_ptr0': '*fp32'}}, 'device': None}},
    inductor_meta={{'mutated_arg_names': ['in_out_ptr0'], 'optimize_mem': False, 'num_load': 2}},
)
@triton.jit
def triton_one(in_ptr0, in_out_ptr0, xnumel, XBLOCK : tl.constexpr):
    pass
"""


def allocations(rows, size):
    names = {row[1]: row[2] for row in rows if isinstance(row, list) and row[0] == "s"}
    events = (row for row in rows if isinstance(row, list) and row[0] == "a")
    return [names[row[3]] for row in events if row[2] == size]


class CompiledGraphs(unittest.TestCase):
    def test_what_is_kept_of_convolutions_stays_in_their_layout(self):
        rows = rows_of(self, CONVOLUTIONS)
        self.assertIn("torch.compile was followed", str(rows[-1]))
        asked = allocations(rows, RESULT)
        self.assertEqual(asked.count("aten.convolution.default"), 3)
        # Two ReLUs and the gradient of the third, which is fused with the pooling behind it: nothing is copied.
        self.assertEqual(asked.count("aten.empty_strided.default"), 3)
        self.assertEqual(asked.count("aten.convolution_backward.default"), 2)

    def test_ops_of_a_graph_are_worked_out_with_its_own_mode(self):
        rows_of(self, ONE_MODE)

    def test_the_first_batch_does_not_live_as_long_as_its_graph(self):
        self.assertIn("torch.compile was followed", str(rows_of(self, FIRST_BATCH)[-1]))

    def test_kernels_that_change_their_arguments_are_tried_on_copies(self):
        asked = allocations(rows_of(self, IN_PLACE), PRODUCT)
        self.assertEqual(len([name for name in asked if name.startswith("triton_")]), 4)

    def test_products_of_odd_sizes_are_tried_with_padding_once_and_stay_as_they_are(self):
        rows = rows_of(self, UNALIGNED)
        # Twice each: for the first run, and again with a buffer of the size of the cache.
        self.assertEqual(allocations(rows, 2048 * ALIGNED * 4), [TRIAL] * 2)
        plain = allocations(rows, 2048 * 1001 * 4)
        self.assertEqual(plain, [TRIAL] * 2 + ["aten.empty_strided.default"] * 2)
        self.assertEqual(allocations(rows, 32 << 20), [TRIAL])


class FormsOfKernels(unittest.TestCase):
    def of(self, kind, hints, more=""):
        return forms(KERNEL.format(kind=kind, hints=hints, more=more))

    def test_as_many_as_inductor_lists(self):
        changes = (1,)
        self.assertEqual(self.of("pointwise", {"x": 1 << 20}), Forms(2, changes))
        square = "tile_hint=TileHint.SQUARE,"
        self.assertEqual(self.of("pointwise", {"y": 512, "x": 512}, square), Forms(1, changes))
        self.assertEqual(self.of("pointwise", {"y": 512, "x": 512}).number, 6)
        inner = "reduction_hint=ReductionHint.INNER,"
        self.assertEqual(self.of("reduction", {"x": 512, "r0_": 8192}, inner).number, 1)

    def test_a_kernel_of_a_template_has_one(self):
        self.assertEqual(self.of("template", {}), Forms(1))
        self.assertEqual(forms("def kernel(): pass"), Forms(1))


class Buffer:
    def get_name(self):
        return "buf0"


class QuickerCompiler(unittest.TestCase):
    def test_rules_of_types_are_made_once_however_many_kernels_ask_for_them(self):
        fill = mock.Mock()
        with (
            mock.patch.object(DtypePropagationOpsHandler, "__init__", lambda _: fill()),
            skipping_work(),
        ):
            for _ in range(3):
                DtypePropagationOpsHandler()
        fill.assert_called_once()

    def test_what_buffers_have_in_common_is_asked_once_in_each_graph(self):
        ask = mock.Mock(side_effect=["key of the first graph", "of the second"])
        with mock.patch.object(wrapper, "buffer_reuse_key", ask), skipping_work():
            for graph in (Buffer(), Buffer()):
                with V.set_graph_handler(graph):
                    given = {wrapper.buffer_reuse_key(Buffer()) for _ in range(3)}
                self.assertEqual(len(given), 1)
        self.assertEqual(ask.call_count, 2)

    def test_usual_tensors_of_the_card_are_not_asked_whether_kernels_can_read_them(self):
        ask = mock.Mock(wraps=lowering.unsupported_input_tensor)
        kinds = ((torch.float16, "cuda"), (torch.complex64, "cuda"), (torch.float16, "meta"))
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        mode.allow_meta = True
        with (
            mock.patch.object(fakes, "init_gpu_context", lambda *_: None),
            mock.patch.object(lowering, "unsupported_input_tensor", ask),
            skipping_work(),
        ):
            tensors = [
                FakeTensor(mode, torch.empty(2, dtype=kind, device="meta"), torch.device(place, 0))
                for kind, place in kinds
            ]
            found = [lowering.unsupported_input_tensor(one) for one in tensors]
        self.assertEqual(found, [False, True, True])
        self.assertEqual(ask.call_count, 2)

    def test_what_a_capture_leaves_behind_is_gone_after_it_however_old_it_is(self):
        left = []

        def capture(*_):
            self.assertFalse(gc.isenabled())
            one = Buffer()
            one.itself = one
            left.append(weakref.ref(one))
            # It is in use while the capture waits.
            gc.collect(0)

        calls = Calls(print, mock.Mock(), mock.Mock(), graphs=False)
        with mock.patch(f"{Calls.__module__.rpartition('.')[0]}.capture.capture", capture):
            calls._captured(Parts(((), {})), [])
        self.assertTrue(gc.isenabled())
        self.assertIsNone(left[0]())

    def test_the_collector_is_left_as_it_was_when_the_compiler_is_imported(self):
        self.assertIs(_compiled_model(), OptimizedModule)
        self.assertTrue(gc.isenabled())
        gc.disable()
        self.addCleanup(gc.enable)
        _compiled_model()
        self.assertFalse(gc.isenabled())

    def test_graphs_are_not_written_for_a_log_and_ops_do_not_switch_dynamo_off(self):
        own = FakeTensorMode.__torch_dispatch__.__wrapped__
        marks = dict(vars(own))
        with skipping_work():
            self.assertIsNone(graph_compile._log_joint_graph(mock.Mock(), mock.Mock()))
            self.assertEqual(
                graph_compile._log_fw_bw_graphs(*[mock.Mock()] * 5),
                (None, None),
            )
            self.assertIs(vars(own)["__dynamo_disable"], own)
        self.assertEqual(vars(own), marks)

    def test_nothing_is_hashed_and_graphs_are_written_as_code_when_they_are_called(self):
        with skipping_work():
            self.assertEqual(torch.utils._triton.triton_hash_with_backend(), "")
            self.assertEqual(CacheBase.get_system(), {"hash": ""})
            self.assertEqual(_get_graph_module_cls().__name__, "_LazyGraphModule")
        self.assertEqual(_get_graph_module_cls().__name__, "GraphModule")


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
from plimsoll_trace.programs.compiling.lowering import Lowering
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


# Whether a program evaluates with what it compiles, by its source.

WITH = """
fast = torch.compile(model)
for x in train:
    fast(x).backward()
model.eval()
with torch.no_grad(), torch.autocast("cuda"):
    {evaluated}(x)
"""
FUNCTION = """
def main():
    fast = torch.compile(model) if wanted else model
    fast(x).backward()
    print(accuracy({evaluated}, loader))

def accuracy(model, loader):
    model.eval()
    with torch.inference_mode():
        model(x)
"""
DECORATED = """
{name} = torch.compile(raw)

@torch.no_grad()
def loss():
    return model(x)
"""
STEP = """
class Task(LightningModule):
    def __init__(self):
        self.{name} = torch.compile(net)

    def validation_step(self, batch):
        return self.model(batch)
"""
COMPILED_EVALUATIONS_IN_PLACE = """
model.compile()
with torch.no_grad():
    {evaluated}(x)
"""
LOSS = """
@torch.compile(dynamic=False)
def loss(x):
    return model(x)

with torch.no_grad():
    {evaluated}(x)
"""


class Evaluations(unittest.TestCase):
    def assert_told_apart(self, source, name, own, other):
        self.assertTrue(evaluates([source.format(**{name: own})]), own)
        self.assertFalse(evaluates([source.format(**{name: other})]), other)

    def test_a_block_without_gradients_calls_the_compiled_one_or_the_plain_one(self):
        self.assert_told_apart(WITH, "evaluated", "fast", "model")
        self.assert_told_apart(COMPILED_EVALUATIONS_IN_PLACE, "evaluated", "model", "average")
        self.assert_told_apart(LOSS, "evaluated", "loss", "model")

    def test_a_function_that_evaluates_is_given_one_of_them(self):
        self.assert_told_apart(FUNCTION, "evaluated", "fast", "model")

    def test_a_function_without_gradients_uses_it_by_its_name(self):
        self.assert_told_apart(DECORATED, "name", "model", "fast")

    def test_a_step_of_lightning_uses_it(self):
        self.assert_told_apart(STEP, "name", "model", "fast")

    def test_a_program_in_several_files(self):
        first, second = DECORATED.format(name="model").split("@")
        self.assertTrue(evaluates([first, "@" + second]))
        self.assertFalse(evaluates([first]))

    def test_a_trainer_that_compiles_by_a_setting(self):
        self.assertTrue(evaluates(["Trainer(model, eval_dataset=held)"]))
        self.assertFalse(evaluates(["Trainer(model)", "pattern = re.compile('eval_dataset')"]))

    def test_what_is_no_python_says_nothing(self):
        self.assertFalse(evaluates(["with torch.no_grad(:", "\0", ""]))


# Programs that compile the step of their optimizer.

COMPILED_OPTIMIZERS_PROGRAM = """
import torch

model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.Adam(model.parameters(), foreach=True)

{compiled}

for _ in range(4):
    model(torch.randn(8, 64, device="cuda")).sum().backward()
    step()
    optimizer.zero_grad()
"""
WAYS = {
    "a function": "@torch.compile(fullgraph=False)\ndef step():\n    optimizer.step()",
    "the method": "step = torch.compile(optimizer.step)",
}


class CompiledOptimizers(unittest.TestCase):
    def test_a_compiled_step_keeps_the_state_of_the_optimizer(self):
        for name, compiled in WAYS.items():
            with self.subTest(name):
                notes = rows_of(self, COMPILED_OPTIMIZERS_PROGRAM.format(compiled=compiled))[-1][
                    "notes"
                ]
                self.assertIn("torch.compile was left out", notes[0])


# Blocks that are compiled one by one, and are alike, are lowered once.

EQUAL_GRAPHS_PROGRAM = """
import os
import torch
from torch import nn
from plimsoll_trace.programs.compiling import lowering

os.sched_getaffinity = lambda _: {{0}}
lowered = []
lower = lowering.Lowering._lower
def counted(self, graph, inputs, kind):
    lowered.append(kind)
    return lower(self, graph, inputs, kind)
lowering.Lowering._lower = counted
{change}

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, width), nn.Linear(width, 64)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

model = nn.Sequential(*(Block(width) for width in {widths})).cuda()
for block in model:
    block.compile(mode={mode!r})
x = torch.zeros(4096, 64).cuda()
for _ in range(3):
    model(x).square().mean().backward()
model.eval()
with torch.no_grad():
    model(x)
assert len(lowered) == {expected}, lowered
"""
EACH = "lowering.form_of_graph = lambda *_: None"


class EqualGraphs(unittest.TestCase):
    def rows(self, expected, change="", widths=(256, 256, 256), mode=None):
        settings = {"change": change, "widths": widths, "mode": mode, "expected": expected}
        rows = rows_of(self, EQUAL_GRAPHS_PROGRAM.format(**settings))
        self.assertIn("torch.compile was followed", str(rows[-1]))
        return rows[1:-1]

    def test_the_trace_is_that_of_graphs_that_are_all_lowered(self):
        # Forward, backward and inference; gradients of the input are not asked for in the first block.
        for mode in (None, "reduce-overhead"):
            with self.subTest(mode):
                self.assertEqual(self.rows(5, mode=mode), self.rows(9, EACH, mode=mode))

    def test_other_blocks_are_lowered_for_themselves(self):
        self.rows(8, widths=(256, 256, 512))


# Kernels that are alike are written once, and patterns that cannot be in a graph are not looked for.

aten = torch.ops.aten
MODEL = """
import contextlib
import os
import torch
from torch import nn
from torch._inductor.codegen.triton import TritonKernel
import plimsoll_trace.programs.compiling.skipped_work as quicker

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
