"""Graphs of `torch.compile`: what they keep, in which layout, and what their kernels are tried with."""

import gc
import unittest
import weakref
from unittest import mock

import torch
import torch._subclasses.fake_tensor as fakes
from torch._dynamo.eval_frame import OptimizedModule
from torch._functorch._aot_autograd import graph_compile
from torch._inductor import lowering
from torch._inductor.codecache import CacheBase
from torch._inductor.codegen import wrapper
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx._lazy_graph_module import _get_graph_module_cls

from tracing.kinds.traced_program import rows_of

from plimsoll.tracing.programs.compiling.entry import Calls, _compiled_model
from plimsoll.tracing.programs.compiling.execution import Forms, forms
from plimsoll.tracing.programs.compiling.parts import Parts
from plimsoll.tracing.programs.compiling.quicker import quicker

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
        with mock.patch.object(DtypePropagationOpsHandler, "__init__", lambda _: fill()), quicker():
            for _ in range(3):
                DtypePropagationOpsHandler()
        fill.assert_called_once()

    def test_what_buffers_have_in_common_is_asked_once_in_each_graph(self):
        ask = mock.Mock(side_effect=["key of the first graph", "of the second"])
        with mock.patch.object(wrapper, "buffer_reuse_key", ask), quicker():
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
            quicker(),
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
        with quicker():
            self.assertIsNone(graph_compile._log_joint_graph(mock.Mock(), mock.Mock()))
            self.assertEqual(
                graph_compile._log_fw_bw_graphs(*[mock.Mock()] * 5),
                (None, None),
            )
            self.assertIs(vars(own)["__dynamo_disable"], own)
        self.assertEqual(vars(own), marks)

    def test_nothing_is_hashed_and_graphs_are_written_as_code_when_they_are_called(self):
        with quicker():
            self.assertEqual(torch.utils._triton.triton_hash_with_backend(), "")
            self.assertEqual(CacheBase.get_system(), {"hash": ""})
            self.assertEqual(_get_graph_module_cls().__name__, "_LazyGraphModule")
        self.assertEqual(_get_graph_module_cls().__name__, "GraphModule")


if __name__ == "__main__":
    unittest.main()
