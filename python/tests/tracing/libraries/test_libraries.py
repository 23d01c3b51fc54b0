"""Models that a program converts or exports, tensors of other libraries, and formulas of places in memory."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from importlib.util import find_spec
from unittest import mock

import sympy
import torch
from sympy import Basic, Integer, Wild, symbols
from torch._inductor import ir, sizevars, utils
from torch._inductor.sizevars import SizeVarAllocator
from torch.utils._sympy.functions import FloorDiv, ModularIndexing
from torch.utils.data import DataLoader, IterableDataset

from tracing.calls.test_calls import traced
from tracing.watching import rows_of
from warm import PACKAGE

from plimsoll_trace.programs.compiling.repeated_work import formulas_once, quickly_matched
from plimsoll_trace.programs.lightning import _ends_with_an_epoch, _limits
from plimsoll_trace.programs.loops.loaders import Passage

QUANTIZED = """
import torch
import torch.ao.quantization as quantization
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quantize, self.dequantize = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.norm, self.relu = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
        self.head = nn.Linear(8 * 36, 10)

    def forward(self, x):
        x = self.relu(self.norm(self.conv(self.quantize(x))))
        return self.dequantize(self.head(x.flatten(1)))

for device in ("cpu", "cuda"):
    model = Net().train()
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    quantization.fuse_modules_qat(model, [["conv", "norm", "relu"]], inplace=True)
    quantization.prepare_qat(model, inplace=True)
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(16, 3, 8, 8, device=device)).pow(2).mean().backward()
        optimizer.step()
    quantized = quantization.convert(model.cpu().eval())
    assert quantized(torch.randn(2, 3, 8, 8)).shape == (2, 10)
    assert quantized.conv.weight().dtype == torch.qint8
small = quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 8)), {nn.Linear}, dtype=torch.qint8)
assert small(torch.randn(2, 8)).shape == (2, 8)
"""

EXPORTED = """
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
on_host = torch.export.export(model.eval(), (torch.randn(2, 3, 8, 8),))
assert "batch_norm" in str(on_host.graph)
assert not any(buffer.is_meta for buffer in model.buffers())
model.cuda()
size = torch.export.Dim("size", min=2, max=64)
pictures = torch.randn(16, 3, 8, 8, device="cuda")
exported = torch.export.export(model, (pictures,), dynamic_shapes=({0: size},))
assert exported.module()(torch.randn(32, 3, 8, 8, device="cuda")).is_cuda
torch.export.save(exported, "model.pt2")
assert torch.export.load("model.pt2").module()(pictures).shape == (16, 10)

class Placed(nn.Module):
    def forward(self, x):
        return x + torch.ones(8, device="cuda")

# Its code names a device, which the export here does not know.
assert torch.export.export(Placed(), (pictures,)).module()(pictures).is_cuda
"""

SHARED = """
import numpy as np
import torch

rows = torch.randn(1000, 500, device="cuda")
assert torch.from_dlpack(rows).is_cuda and rows.__dlpack_device__() == (2, 0)
assert torch.from_dlpack(rows).data_ptr() == rows.data_ptr()
capsule = torch.utils.dlpack.to_dlpack(rows)
assert torch.utils.dlpack.from_dlpack(capsule).shape == rows.shape

class Array:
    # As arrays of other libraries on the GPU.
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, stream=None, **_):
        return self.tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

assert torch.from_dlpack(Array(rows)).is_cuda
assert torch.from_dlpack(np.arange(10)).sum() == 45 and np.from_dlpack(torch.arange(5)).sum() == 10
assert np.from_dlpack(rows.cpu()).shape == (1000, 500)
"""

DRAWN = """
import torch

torch.set_default_tensor_type(torch.cuda.FloatTensor)
assert torch.normal(0.0, 1.0, (100, 100)).is_cuda and torch.normal(0.0, 1.0, size=(3,)).is_cuda
assert not torch.normal(0.0, 1.0, (3,), device="cpu").is_cuda
assert torch.normal(torch.zeros(3), 1.0).is_cuda
torch.set_default_tensor_type(torch.FloatTensor)
# A default device means nothing to it.
torch.set_default_device("cuda")
assert not torch.normal(0.0, 1.0, (3,)).is_cuda
"""


class Converted(unittest.TestCase):
    def test_quantized_models_run_on_values(self):
        rows_of(self, QUANTIZED)

    def test_exported_models_run_where_the_model_does(self):
        rows_of(self, EXPORTED)

    @unittest.skipUnless(find_spec("numpy"), "needs numpy")
    def test_tensors_shared_by_dlpack_stay_on_the_gpu_and_are_counted_once(self):
        asked = [row[2] for row in rows_of(self, SHARED) if isinstance(row, list) and row[0] == "a"]
        self.assertEqual(asked.count(1000 * 500 * 4), 1)

    def test_normal_numbers_are_drawn_where_the_default_type_is(self):
        rows_of(self, DRAWN)


# As torchmetrics holds labels against those that there may be.
LABELS = """
import torch

scores = torch.randn(16, 4, device="cuda")
found = torch.unique(scores.argmax(-1))
assert len(found) == 4
if torch.any((found != 0) & (found != 1) & (found != 2) & (found != 3)):
    raise RuntimeError("other labels")
marks = torch.unique((scores[:, 0] > 0.5).int())
if torch.any((marks != 0) & (marks != 1)):
    raise RuntimeError("other marks")
# More words than places: each place may have its own.
assert len(torch.unique(torch.randn(4, 999, device="cuda").argmax(-1))) == 4
assert len(torch.unique(torch.randn(64, device="cuda").long())) == 64
"""


class Stream(IterableDataset):
    def __iter__(self):
        yield from range(5)


class Metrics(unittest.TestCase):
    def test_the_different_labels_of_a_choice_are_those_it_is_made_of(self):
        rows_of(self, LABELS)

    def test_a_stream_does_not_tell_how_short_its_last_batch_is(self):
        passage = Passage.__new__(Passage)
        passage._loader, passage._recent = DataLoader(Stream(), batch_size=2), [0, 1]
        self.assertEqual(passage._short(), 0)
        passage._loader = DataLoader(range(5), batch_size=2)
        self.assertEqual(passage._short(), 1)


# One rank alone: sharded models, their checkpoints, and collectives whose arguments are given by name.

ALONE = """
import os, tempfile
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoints
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500", RANK="0", WORLD_SIZE="1")
os.chdir(tempfile.mkdtemp())
dist.init_process_group("nccl")
model = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 512)).cuda()
for layer in (*model, model):
    fully_shard(layer)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(64, 512, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
weights, moments = get_state_dict(model, optimizer)
try:
    checkpoints.load({"model": weights}, checkpoint_id="none")
except checkpoints.CheckpointException:
    pass
else:
    raise AssertionError("nothing is there")
checkpoints.save({"model": weights, "optimizer": moments}, checkpoint_id="last")
assert os.path.exists("last/.metadata")
checkpoints.load({"model": weights, "optimizer": moments}, checkpoint_id="last")
set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)

losses, loss = [torch.zeros(1, device="cuda")], torch.ones(1, device="cuda")
dist.all_gather(tensor_list=losses, tensor=loss)
dist.gather(tensor=loss, gather_list=losses, dst=0)
results = [None]
dist.all_gather_object(object_list=results, obj={"loss": 1})
assert results == [{"loss": 1}]
dist.gather_object(object_gather_list=results, obj={"loss": 2}, dst=0)
assert results == [{"loss": 2}]
assert dist.all_gather(losses, loss, async_op=True).wait()
dist.destroy_process_group()
"""


class ShardedCheckpoints(unittest.TestCase):
    def test_they_are_saved_and_loaded_by_name(self):
        rows_of(self, ALONE)


# The short epochs that are asked of Lightning's Trainer.


class ShortEpochs(unittest.TestCase):
    def test_three_steps_follow_one_another_before_a_validation_within_the_epoch(self):
        for interval in (0.5, 0.1):
            limits = _limits({"val_check_interval": interval})
            self.assertEqual((limits["limit_train_batches"], limits["val_check_interval"]), (4, 3))

    def test_a_step_may_be_of_several_batches(self):
        limits = _limits({"val_check_interval": 0.25, "accumulate_grad_batches": 2})
        self.assertEqual((limits["limit_train_batches"], limits["val_check_interval"]), (8, 6))

    def test_a_validation_at_the_end_of_an_epoch_stays_there(self):
        self.assertNotIn("val_check_interval", _limits({}))
        self.assertNotIn("val_check_interval", _limits({"val_check_interval": 1.0}))
        self.assertEqual(_limits({"val_check_interval": 500})["val_check_interval"], 1.0)
        self.assertEqual(_limits({})["limit_train_batches"], 3)

    def test_a_number_of_steps_may_end_a_training_within_an_epoch(self):
        self.assertTrue(_ends_with_an_epoch({"max_epochs": 3, "max_steps": -1}))
        self.assertFalse(_ends_with_an_epoch({"max_steps": 20}))
        self.assertFalse(_ends_with_an_epoch({"max_time": "00:01:00:00"}))

    def test_fewer_batches_that_a_person_asks_for_are_all(self):
        limits = _limits({"val_check_interval": 0.5, "limit_train_batches": 2})
        self.assertEqual(limits["limit_train_batches"], 2)
        self.assertNotIn("val_check_interval", limits)


# TorchScript, the profiler and compiled steps: programs that use them beside their model.

SAVED = """
import os
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1000, 300)

    def forward(self, x):
        return torch.relu(self.layer(x))

batch = torch.randn(4, 1000)
torch.jit.script(Net()).save("script.pt")
torch.jit.save(torch.jit.trace(Net().eval().cuda(), batch.cuda()), "traced.pt")
for name in ("script.pt", "traced.pt"):
    model = torch.jit.load(name, map_location="cuda")
    assert next(model.parameters()).is_cuda and model(batch.cuda()).is_cuda
    model = torch.jit.load(name, map_location="cpu")
    assert model(batch).device.type == "cpu"
    assert model.to("cuda")(batch.cuda()).is_cuda
frozen = torch.jit.freeze(torch.jit.trace(Net().eval().cuda(), batch.cuda()))
assert frozen(batch.cuda()).shape == (4, 300)
"""

PROFILED = """
import torch
from torch.profiler import ProfilerActivity, profile

model = torch.nn.Linear(1000, 300).cuda()
for activities in ([ProfilerActivity.CPU, ProfilerActivity.CUDA], [ProfilerActivity.CUDA]):
    with profile(activities=activities, profile_memory=True) as profiler:
        model(torch.ones(2, 1000, device="cuda")).sum().backward()
    profiler.key_averages().table(sort_by="cuda_time_total")
with torch.autograd.profiler.profile(use_cuda=True) as profiler:
    model(torch.ones(2, 1000, device="cuda"))
"""

# As Lightning compiles the steps of a module.
STEPS = """
import torch

class Net(torch.nn.Module):
    automatic_optimization = True

    def __init__(self):
        super().__init__()
        self.layer, self.logged = torch.nn.Linear(8, 8), []

    def training_step(self, batch):
        loss = self.layer(batch).sum()
        self.logged.append(loss.detach())
        return loss

compiled = torch.compile(Net().cuda())
model = compiled._orig_mod
model.training_step = compiled.dynamo_ctx(model.training_step)
for _ in range(3):
    model.training_step(torch.ones(2, 8, device="cuda")).backward()
assert len([loss.to("cpu").item() for loss in model.logged]) == 3
"""


class TorchScript(unittest.TestCase):
    def test_models_are_traced_saved_and_loaded_without_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            done = traced(folder, SAVED)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["t.jsonl", "train.py"])

    def test_a_file_of_a_real_run_is_read_and_its_weights_are_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "real.pt")
            torch.jit.script(torch.nn.Linear(1000, 300)).save(path)
            program = f"import torch\nmodel = torch.jit.load({path!r}, 'cuda')\n"
            rows = rows_of(self, program + "model(torch.ones(2, 1000, device='cuda'))\n")
        asked = [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]
        self.assertIn(1000 * 300 * 4, asked)

    def test_the_profiler_does_not_ask_for_a_card(self):
        with tempfile.TemporaryDirectory() as folder:
            done = traced(folder, PROFILED)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("Failed to record", done.stderr)

    def test_compiled_steps_keep_what_they_log(self):
        rows_of(self, STEPS)


# Parts of libraries that wait until a program asks something of them.

RUN = """
import json, sys
from plimsoll_trace.__main__ import main
status = main(["--gpu", "h200", "--output", sys.argv[1], "--program", sys.argv[2]])
slow = ("torch._dynamo.convert_frame", "sympy.core", "pandas", "datasets.arrow_dataset", "peft.peft_model")
print(json.dumps([name for name in slow if name in sys.modules]))
sys.exit(status)
"""
STEP = """
import torch
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.ones(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
HALVES = """
import torch
halves = torch.ones(8, 64, device="cuda", dtype=torch.float16, requires_grad=True)
halves.sum(0).float().sum().backward()
"""
COMPUTED = """
import torch
torch.ones(8, 64, device="cuda", dtype=torch.float16).sum(0)
from torch.utils._sympy.functions import FloorDiv, Max
import sympy
assert Max(sympy.Integer(2), sympy.Integer(5)) == 5 and FloorDiv(sympy.Integer(5), sympy.Integer(2)) == 2
"""
TRAINER = """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
config = BertConfig(vocab_size=99, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
rows = [{"input_ids": torch.arange(8), "labels": 1} for _ in range(32)]
settings = TrainingArguments("out", per_device_train_batch_size=8, max_steps=3, report_to="none")
Trainer(BertForSequenceClassification(config), settings, train_dataset=rows).train()
"""
ADAPTERS = """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer
from transformers import trainer, trainer_utils
held = trainer.PeftModel
from peft import LoraConfig, PeftModel, get_peft_model
assert trainer.PeftModel is trainer_utils.PeftModel is PeftModel is not held
config = BertConfig(vocab_size=99, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
model = get_peft_model(BertForSequenceClassification(config), LoraConfig(target_modules=["query"]))
assert trainer_utils._is_peft_model(model)
model.cuda()(input_ids=torch.ones(2, 8, dtype=torch.int64, device="cuda"))
"""
MARKED = """
import torch

@torch.compiler.disable
def apart(value):
    "Runs as it is."
    return value + 1

@torch.compiler.disable(recursive=False)
def alone(value):
    return value + 2

assert apart.__doc__ and apart._torchdynamo_disable and not alone._torchdynamo_disable_recursive
assert int(apart(torch.ones(()))) == 2
import torch._dynamo as compiler
compiler.allow_in_graph(apart)
from torch._dynamo.eval_frame import OptimizedModule
assert int(apart(torch.ones(()))) == 2 and int(alone(torch.ones(()))) == 3
assert torch._dynamo.eval_frame.OptimizedModule is OptimizedModule
assert compiler.config.__name__ == "torch._dynamo.config"
torch.ones(1, device="cuda")
"""

SYMBOLS = """
import sys, torch
import torch.fx.experimental.symbolic_shapes as shapes
assert int(shapes.sympy.Integer(2)) == 2
assert shapes.sympy is sys.modules["sympy"]
torch.ones(1, device="cuda")
"""


class LaterParts(unittest.TestCase):
    def loaded(self, program):
        """The slow ones of all modules that a program has loaded by its end."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "train.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(program))
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", RUN, os.path.join(folder, "trace"), path],
                env={**os.environ, "PYTHONPATH": PACKAGE},
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout.strip().splitlines()[-1])

    def test_a_step_of_an_optimizer_loads_no_compiler(self):
        self.assertEqual(self.loaded(STEP), [])

    def test_sums_in_half_precision_load_no_symbols(self):
        self.assertEqual(self.loaded(HALVES), [])

    def test_a_program_that_works_with_symbols_has_the_real_ones(self):
        self.assertEqual(self.loaded(COMPUTED), ["sympy.core"])

    def test_a_trainer_loads_neither_a_compiler_nor_data_sets_nor_adapters(self):
        try:
            import accelerate  # noqa: F401
            import transformers  # noqa: F401
        except ImportError:
            self.skipTest("needs transformers and accelerate")
        self.assertEqual(self.loaded(TRAINER), [])

    def test_a_model_with_adapters_is_known_where_they_are_imported_after_the_trainer(self):
        try:
            import peft  # noqa: F401
        except ImportError:
            self.skipTest("needs peft")
        self.assertEqual(self.loaded(ADAPTERS), ["peft.peft_model"])

    def test_what_was_marked_for_the_compiler_is_known_to_it_later(self):
        self.assertIn("torch._dynamo.convert_frame", self.loaded(MARKED))

    def test_a_package_that_was_asked_takes_the_place_of_what_stood_for_it(self):
        self.assertIn("sympy.core", self.loaded(SYMBOLS))

    def test_a_programs_own_data_sets_are_found(self):
        program = """
            import os, sys
            os.makedirs("datasets")
            open("datasets/__init__.py", "w").write("Dataset = 5")
            import torch
            from datasets import Dataset
            assert Dataset == 5
            torch.ones(1, device="cuda")
        """
        self.assertEqual(self.loaded(program), [])


i, j, k = sympy.symbols("i j k0", integer=True, nonnegative=True)
RANGES = {i: sympy.Integer(8), j: sympy.Integer(32)}
FORMULAS = (
    32 * i + j,
    (i + 1) * (j + 2),
    FloorDiv(j, 32) + i,
    ModularIndexing(32 * i + j, 1, 32),
    ModularIndexing(i, 1, 4) + 4 * ModularIndexing(i, 4, 2),
    sympy.Integer(7),
)


class Formulas(unittest.TestCase):
    def test_are_those_of_pytorch(self):
        plain = [SizeVarAllocator().simplify_with_ranges(one, RANGES) for one in FORMULAS]
        with formulas_once():
            sizes = SizeVarAllocator()
            self.assertEqual([sizes.simplify_with_ranges(one, RANGES) for one in FORMULAS], plain)
            self.assertEqual(sizes.simplify(i * (j + 1)), i * j + i)

    def test_known_sizes_take_the_place_of_unknown_ones(self):
        with formulas_once():
            sizes = SizeVarAllocator()
            self.assertEqual(sizes.simplify(i + j), i + j)
            sizes.replacements[j] = sympy.Integer(3)
            self.assertEqual(sizes.simplify(i + j), i + 3)

    def test_are_made_simpler_without_the_units_of_physics(self):
        names = ("sympy.physics", "sympy.physics.units")
        there = {name: sys.modules.pop(name) for name in names if name in sys.modules}
        self.addCleanup(sys.modules.update, there)
        with formulas_once():
            self.assertEqual(sympy.simplify((4 * i + 8) / 4 + j), i + j + 2)
            # The whole of it has some thousand names.
            self.assertNotIn("meter", vars(sys.modules[names[1]]))
        self.assertFalse(set(names) & set(sys.modules))

    def test_variables_are_replaced_once(self):
        with (
            formulas_once(),
            mock.patch.object(
                sympy.Basic, "xreplace", autospec=True, side_effect=sympy.Basic.xreplace
            ) as replace,
        ):
            for _ in range(3):
                self.assertEqual(ir.sympy_subs(32 * i + j, {i: j, j: "k0"}), 32 * j + k)
            self.assertEqual(replace.call_count, 1)
            # Numbers of other kinds, and other names, are others.
            for by in (0, sympy.Integer(0), False, "k0", k):
                self.assertIs(type(ir.sympy_subs(i, {i: by})), type(k if by == "k0" else by))
        self.assertIs(ir.sympy_subs, utils.sympy_subs)

    def test_are_worked_out_once(self):
        with mock.patch.object(sympy, "expand", wraps=sympy.expand) as expand, formulas_once():
            sizes = SizeVarAllocator()
            for _ in range(3):
                sizes.simplify(i * (j + 1))
        self.assertEqual(expand.call_count, 1)

    def test_what_divides_nothing_needs_no_ranges(self):
        with formulas_once(), mock.patch.object(sizevars, "ValueRanges") as ranges:
            SizeVarAllocator()._simplify_with_ranges(32 * i + j, RANGES)
        ranges.assert_not_called()


class SmallestAndLargest(unittest.TestCase):
    def test_are_made_once_and_as_sympy_makes_them(self):
        plain = sympy.Min(i + 1, j, 5), sympy.Max(i, i + 1), sympy.Min(2.0, 3), sympy.Min(2, 3)
        with formulas_once():
            made = sympy.Min(i + 1, j, 5), sympy.Max(i, i + 1), sympy.Min(2.0, 3), sympy.Min(2, 3)
            self.assertIs(sympy.Min(i + 1, j, 5), made[0])
        self.assertEqual(list(map(sympy.srepr, made)), list(map(sympy.srepr, plain)))
        self.assertIsNot(sympy.Min(i + 1, j, 5), made[0])


row, column = symbols("row column", integer=True, nonnegative=True)
scale = Wild("scale", exclude=[0], integer=True)
base, divisor, modulus = (Wild(name, integer=True) for name in ("base", "divisor", "modulus"))
DIVISIONS = (
    ModularIndexing(row, 1, 32),
    32 * ModularIndexing(row, 32, 4),
    -7 * ModularIndexing(7 * row + column, 2, 5),
    ModularIndexing(ModularIndexing(row, 7, 8) + column, 1, 3),
)
DIVIDED = (
    *DIVISIONS,
    32 * FloorDiv(row, 32),
    FloorDiv(row, 32),
    3 * row,
    row,
    row + column,
    2 * row + column,
    row + 7 * column + 3,
    row + FloorDiv(row, 7),
    Integer(5),
    column * ModularIndexing(row, 1, 32),
    2 * ModularIndexing(row, 1, 32) * ModularIndexing(column, 4, 8),
    ModularIndexing(row, 1, 32) + 32 * ModularIndexing(row, 32, 4),
)
PATTERNS = (
    scale * ModularIndexing(base, divisor, modulus),
    ModularIndexing(base, divisor, modulus),
    32 * ModularIndexing(row, 32, modulus),
    ModularIndexing(row, 1, modulus),
    scale * ModularIndexing(base, 1, base),
    ModularIndexing(row, 1, 2 * modulus),
    32 * FloorDiv(row, 32),
    row + Wild("rest", exclude=[row]),
)


class Matches(unittest.TestCase):
    def test_are_those_of_sympy(self):
        quick = quickly_matched(Basic.match)
        found = 0
        for formula in DIVIDED:
            for pattern in PATTERNS:
                with self.subTest(formula=formula, pattern=pattern):
                    expected = Basic.match(formula, pattern)
                    self.assertEqual(quick(formula, pattern), expected)
                    found += expected is not None
        self.assertGreater(found, 10)

    def test_multiples_of_divisions_are_not_solved_for(self):
        solve = mock.Mock()
        quick = quickly_matched(solve)
        for formula in DIVISIONS:
            self.assertIsNotNone(quick(formula, PATTERNS[0]))
        self.assertIsNone(quick(row, PATTERNS[0]))
        solve.assert_not_called()
        self.assertEqual(
            quick(row + 7 * column, PATTERNS[-1]), {Wild("rest", exclude=[row]): 7 * column}
        )
        solve.assert_not_called()
        quick(DIVIDED[-1], PATTERNS[0])
        solve.assert_called_once()


if __name__ == "__main__":
    unittest.main()
