"""Calls of `torch.cuda`, `torch.accelerator` and CUDA's own libraries, beside computing; and programs that crash."""

import json
import lzma
import os
import signal
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path

import torch

import warm
from tracing.watching import Asked, rows_of, watched
from warm import PACKAGE

from plimsoll_trace.corrections import resized
from plimsoll_trace.kernels import spectra
from plimsoll_trace.kernels.spectra import work_area
from plimsoll_trace.programs.devices.pretended import is_on_host, is_part

CALLS = """
import inspect
import numpy
import torch

cuda = torch.cuda
device = torch.device("cuda")
start, end = torch.Event("cuda", enable_timing=True), torch.Event(device, enable_timing=True)
start.record()
end.record()
end.synchronize()
assert start.elapsed_time(end) > 0 and end.query() and end.device.type == "cuda"
side = torch.Stream("cuda")
with side:
    aside = torch.empty(1_000_000, device=device)
side.wait_stream(torch.cuda.current_stream())
assert isinstance(side, torch.Stream) and isinstance(start, torch.Event)
assert cuda.ExternalStream(side.cuda_stream) == side != cuda.default_stream()
cuda.synchronize(device=device)
# Each name that can be called without an argument answers.
for module in (cuda, cuda.memory, torch.accelerator, cuda.nvtx, cuda.profiler):
    for name in module.__all__ if hasattr(module, "__all__") else dir(module):
        function = getattr(module, name)
        if name.startswith("_") or inspect.isclass(function) or not callable(function):
            continue
        try:
            needed = [
                one for one in inspect.signature(function).parameters.values()
                if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
            ]
        except ValueError:
            continue
        if not needed:
            try:
                function()
            except TypeError as error:
                assert "missing" in str(error), (name, error)
cuda.nvtx.range_push("step")
cuda.nvtx.range_pop()
with cuda.profiler.profile():
    pass
statistics = cuda.memory_stats()
assert statistics["allocated_bytes.all.current"] == cuda.memory_allocated() == 4_000_256
assert statistics["segment.all.current"] == 1 and statistics["allocation.all.current"] == 1
assert cuda.memory_stats_as_nested_dict()["reserved_bytes"]["all"]["peak"] == 20 * 2**20
assert "PyTorch CUDA memory summary" in cuda.memory_summary(abbreviated=True)
cuda.set_per_process_memory_fraction(0.5)
assert cuda.get_per_process_memory_fraction() == 0.5
free, total = cuda.cudart().cudaMemGetInfo(0)
assert 0 < free < total == cuda.get_device_properties(0).total_memory
assert cuda.cudart().cudaProfilerStart() == 0
assert "NVIDIA H200" in str(cuda.get_device_properties(0))
assert torch.backends.cuda.cufft_plan_cache[0].size == 0
with cuda.use_mem_pool(cuda.MemPool()):
    pass
generator = torch.Generator(device).manual_seed(1)
drawn = torch.empty(10, device=device).exponential_(generator=generator)
assert drawn.numpy(force=True).shape == (10,)
torch.set_default_tensor_type(torch.cuda.FloatTensor)
assert torch.zeros(1).is_cuda
torch.set_default_tensor_type(torch.FloatTensor)
assert not torch.zeros(1).is_cuda
model = torch.nn.Linear(10, 10).cuda()
for rate in (0.1, torch.tensor(0.1)):
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9, fused=True)
    for _ in range(3):
        model(drawn).sum().backward()
        optimizer.step()
"""


class CudaCalls(unittest.TestCase):
    def test_calls_that_compute_nothing_answer_as_on_a_card(self):
        rows = rows_of(self, CALLS)
        asked = [row for row in rows if isinstance(row, list) and row[0] == "a"]
        self.assertEqual([row[6] for row in asked if row[2] == 4_000_000], [1])


# Ops on values of the host, which pass the observer by.

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


# With names of its own, so that nothing holds those of the program.
LONG_WAY = """
exec('''
from plimsoll_trace.programs import plain_ops
plain_ops.PlainOps.run = lambda *_: plain_ops.MORE
''', {})
"""

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
rows = torch.randn(300, 64, device="cuda")
layers = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 8)).cuda()

# A router: an even share of the rows goes to each expert, through views, copies and casts.
chosen = layers(rows).softmax(-1).topk(2).indices
hot = F.one_hot(chosen, 8).permute(2, 1, 0)
for expert in hot:
    where = expert.to(torch.bool).clone().view(2, 300)
    taken = rows[where.any(0)]
    assert 0 < len(taken) < 300, len(taken)
marks = (chosen[:, 0] == 3).to(torch.float32)
assert 0 < len(rows[(marks * torch.ones(300, device="cuda")) > 0]) < 300
# A mask in numbers has two values.
assert len((layers(rows)[:, 0] > 0.1).long().unique()) == 2

# Known values go through views and sums, and where one is unknown nothing is known.
lengths = torch.tensor([3, 5, 7], device="cuda")
assert int(lengths.view(3, 1).t().sum()) == 15
assert torch.zeros(int(lengths.sum(0)), device="cuda").shape == (15,)
assert float((layers[0].bias * 0 + 1).detach().sum()) == 64
drawn = torch.rand(300, device="cuda").view(10, 30)
assert 0 < int((drawn.detach() < 0.3).sum()) < 300

# Scores of a model that was just initialised pass a low limit, also in parts.
with torch.no_grad():
    scores = layers(rows).sigmoid().split([100, 200])
rows[:200][scores[1][:, 0] > 0.05]

# In host memory nothing is asked of the GPU; nor is it for what has no values.
on_host = nn.Linear(256, 256)
(on_host.weight.t() * 2).double()
empty = rows[:0]
assert (empty * 2).view(0, 64).to(torch.float16).shape == (0, 64)
torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), device="cuda").t()
torch.func.vmap(lambda row: (row.view(8, 8).t() * 2).sum(0))(rows)

# Gradients are added up in place, and weights become lower by steps.
optimizer = torch.optim.SGD(layers.parameters(), lr=0.1, momentum=0.9)
for step in range(2):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        hidden = layers[0](rows)
        hidden = layers[3](layers[2](layers[1](hidden + rows)) + hidden.mean(-1, keepdim=True))
    (hidden.float() ** 2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class PlainOps(unittest.TestCase):
    maxDiff = None

    def record(self, text):
        *rows, end = rows_of(self, text)
        # The first says how it was called.
        return [*rows[1:], {**end, "seconds": 0}]

    def test_the_record_is_that_of_the_long_way(self):
        self.assertEqual(self.record(PROGRAM), self.record(LONG_WAY + PROGRAM))


RESIZE = (torch.ops.aten.upsample_bilinear2d.default, torch.ops.aten.upsample_bicubic2d.default)


def images():
    for shape in ((2, 3, 7, 5), (1, 1, 4, 4), (3, 32, 1, 9)):
        plain = torch.empty(shape, device="meta")
        yield plain
        yield plain.to(memory_format=torch.channels_last)
        yield plain.half()
        yield plain[:, :1]
        yield plain.transpose(2, 3)
        yield plain.permute(1, 0, 2, 3)
    yield torch.empty(1, 3, 1, 1, device="meta").expand(2, 3, 4, 4)


class Resized(unittest.TestCase):
    def test_it_lies_as_pytorch_says(self):
        for func in RESIZE:
            for image in images():
                for size in ((7, 5), (1, 1)):
                    expected = func(image, size, False)
                    found = resized(func, (image, size, False), {})
                    with self.subTest(func=func, shape=image.shape, stride=image.stride()):
                        self.assertEqual(
                            (found.shape, found.stride(), found.dtype),
                            (expected.shape, expected.stride(), expected.dtype),
                        )

    def test_the_kernel_is_not_asked_for_usual_images(self):
        image = torch.empty(1, 17, 56, 56, device="meta")
        self.assertEqual(resized(None, (image, (90, 40), False), {}).shape, (1, 17, 90, 40))


# What `torch.fft` asks for, against calls recorded on an H200 (bench/gpu/fourier_transforms.py).

TRUTH = Path(__file__).parents[4] / "bench/truth/fourier-transforms.json.xz"

# Lines longer than those that an H200 was asked about: length, whether real, and the numbers of a work area.
WORK = (
    (5000, False, 0),
    (13312, False, 0),
    (16384, False, 0),
    (8704, False, 8704),
    (32768, False, 32768),
    (8192, True, 0),
    (16384, True, 0),
    (5000, True, 2501),
    (32768, True, 16385),
    (16385, True, 16385),
    # Up to a factor of 127; then as a product of lines of more than twice the length.
    (8128, False, 8128),
    (8384, False, 2 * 16875),
    (4612, False, 2 * 9375),
    (4612, True, 2307),
    (4609, True, 9375 + 2304),
)


def pictures(*shape):
    return torch.empty(*shape, device="meta")


class Transforms(unittest.TestCase):
    def asked(self, call, *tensors):
        with watched() as observer:
            asked = Asked(observer)
            call(*tensors)
            return asked.sizes()

    def test_two_dimensions_take_a_work_area_where_a_length_needs_one(self):
        # 328 is 8 x 41.
        x = pictures(6, 5, 328, 328)
        self.assertEqual(self.asked(torch.fft.rfft2, x), [12988800, 12988800])
        even = pictures(6, 5, 320, 320)
        self.assertEqual(self.asked(torch.fft.rfft2, even), [6 * 5 * 320 * 161 * 8])

    def test_the_result_is_there_before_the_work_area(self):
        # 329 is 7 x 47.
        self.assertEqual(self.asked(torch.fft.rfft, pictures(10, 329)), [13200, 26320])
        waves = torch.empty(10, 329, dtype=torch.complex64, device="meta")
        self.assertEqual(self.asked(torch.fft.fft, waves[:, ::2]), [13200])

    def test_input_that_cannot_be_read_as_it_lies_is_copied(self):
        x = pictures(6, 5, 328, 328)
        turned = x.transpose(-1, -2)
        self.assertEqual(self.asked(torch.fft.rfft2, turned), [12988800, 12910080, 12988800])
        # It begins between two complex numbers.
        cut = x[..., 3:300, 5:301]
        self.assertEqual(self.asked(torch.fft.rfft2, cut), [10620720, 10549440, 10620720])
        channels_last = x.permute(0, 2, 3, 1)
        sizes = self.asked(lambda x: torch.fft.rfft2(x, dim=(1, 2)), channels_last)
        self.assertEqual(sizes, [12988800, 12988800])
        tokens = pictures(8, 512, 768)
        sizes = self.asked(lambda x: torch.fft.rfft(x, dim=1), tokens)
        self.assertEqual(sizes, [12632064, 12582912])

    def test_the_first_dimensions_are_worked_out_one_after_the_other(self):
        x = pictures(6, 5, 328, 328)
        sizes = self.asked(lambda x: torch.fft.rfft2(x, dim=(0, 1)), x)
        self.assertEqual(sizes, [15492096, 12910080, 15492096])

    def test_back_to_real_numbers_a_copy_is_written_into(self):
        spectrum = torch.empty(6, 5, 328, 165, dtype=torch.complex64, device="meta")
        self.assertEqual(self.asked(torch.fft.irfft2, spectrum), [12910080, 12988800, 12988800])
        wave = torch.empty(64, 40001, dtype=torch.complex64, device="meta")
        self.assertEqual(self.asked(torch.fft.irfft, wave), [20480000, 20480512, 20480512])

    def test_complex_numbers(self):
        spectrum = torch.empty(6, 5, 328, 165, dtype=torch.complex64, device="meta")
        self.assertEqual(self.asked(torch.fft.fft2, spectrum), [12988800])
        # 40001 has the factor 181.
        wave = torch.empty(64, 40001, dtype=torch.complex64, device="meta")
        self.assertEqual(self.asked(torch.fft.fft, wave), [20480512, 82944000])

    def test_more_than_three_dimensions_take_two_calls(self):
        x = pictures(6, 5, 40, 42, 44)
        sizes = self.asked(lambda x: torch.fft.rfftn(x, dim=(1, 2, 3, 4)), x)
        self.assertEqual(sizes, [9273600, 9273600, 9273600])
        sizes = self.asked(lambda x: torch.fft.fftn(x, dim=(1, 2, 3, 4)), x)
        self.assertEqual(sizes, [17740800] * 4)

    def test_nothing_to_transform_takes_its_result_alone(self):
        spectrum = torch.empty(6, 5, dtype=torch.complex64, device="meta")
        self.assertEqual(self.asked(lambda x: torch.fft.fftn(x, dim=()), spectrum), [240])
        self.assertEqual(self.asked(torch.fft.rfft, pictures(0, 328)), [])

    def test_arguments_may_be_named(self):
        def named(x):
            return torch.ops.aten._fft_r2c(self=x, dim=[1], normalization=0, onesided=True)

        sizes = self.asked(named, pictures(8, 512, 768))
        self.assertEqual(sizes, [12632064, 12582912])

    def test_frames_of_a_sound_take_none(self):
        with watched() as observer:
            line, window = pictures(64, 80000), pictures(1024)
            asked = Asked(observer)
            torch.stft(line, 1024, 256, window=window, return_complex=True)
            # Padding, the frames and their spectra.
            self.assertEqual(asked.sizes(), [20742144, 82051072, 82211328])


class WorkAreas(unittest.TestCase):
    def test_the_lengths_are_those_that_an_h200_told(self):
        with lzma.open(TRUTH, "rt", encoding="utf-8") as file:
            lines = json.load(file)["lines"]
        for table, name in (
            (spectra.REAL, "r2c"),
            (spectra.COMPLEX, "c2c"),
            (spectra.APART, "strided"),
            (spectra.REAL_DOUBLE, "r2c float64"),
            (spectra.COMPLEX_DOUBLE, "c2c float64"),
        ):
            found = [length for length in range(spectra.LONGEST + 1) if table >> length & 1]
            self.assertEqual(found, [length for length, _ in lines[name]], name)

    def test_lines_longer_than_were_asked_about(self):
        for length, is_real, elements in WORK:
            with self.subTest(length=length, is_real=is_real):
                self.assertEqual(work_area((length,), 3, 8, is_real), 3 * 8 * elements)

    def test_of_plans_that_were_drawn_at_random(self):
        for sizes, lines, is_real, bytes_of_one in (
            ((2048, 41), 29, False, 0),
            ((57, 6), 93, False, 57 * 6),
            ((256, 256), 4096, True, 0),
            ((1080, 4), 43, True, 1080 * 3),
            ((1920, 1920), 72, True, 1920 * 961),
            ((100, 100, 100), 268, False, 0),
            ((256, 256, 129), 10, False, 256 * 256 * 129),
            ((16384,), 348, False, 0),
            ((21504,), 917, False, 21504),
            ((102400,), 24, True, 51201),
        ):
            with self.subTest(sizes=sizes):
                self.assertEqual(work_area(sizes, lines, 8, is_real), lines * 8 * bytes_of_one)


# Programs with code for the case that the card's memory runs out.

GIB = 1 << 30

# The H200 has 139.8 GiB.
BY_CLASS = """
import torch

model = torch.nn.Linear(1024, 1024).cuda()

def step(size):
    model(torch.empty(size, 1 << 18, 1024, device="cuda")).sum().backward()

size, failed = 256, []
while size > 1:
    try:
        step(size)
        break
    except torch.cuda.OutOfMemoryError as error:
        failed.append(str(error))
        size //= 2
assert size == 64 and len(failed) == 2 and "out of memory" in failed[0], (size, failed)
"""

BY_WORDS = """
import torch

torch.cuda.set_per_process_memory_fraction(0.5)
kept = []
try:
    while True:
        kept.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
except RuntimeError as error:
    if "out of memory" not in str(error):
        raise
assert len(kept) == 69, len(kept)
"""

BY_ACCELERATE = """
import torch
from accelerate.utils import find_executable_batch_size

tried = []

@find_executable_batch_size(starting_batch_size=512)
def train(batch_size):
    tried.append(batch_size)
    torch.empty(batch_size, 1 << 29, device="cuda").add(1)

train()
assert tried[0] == 512 and tried[-1] == min(tried) and tried[-1] * 4 < 140, tried
"""

NOT_HANDLED = """
import torch

try:
    torch.empty(300 << 30, dtype=torch.uint8, device="cuda")
except Exception as error:
    raise SystemExit(1)
torch.empty(200 << 30, dtype=torch.uint8, device="cuda")
"""


class OutOfMemory(unittest.TestCase):
    def handled(self, program):
        rows = rows_of(self, program)
        notes = "\n".join(rows[-1]["notes"])
        self.assertIn("ran out at", notes)
        self.assertIn("program.py:", notes)
        live = peak = 0
        sizes = {}
        for row in rows:
            if isinstance(row, list) and row[0] == "a":
                sizes[row[1]] = row[2]
                live += row[2]
            elif isinstance(row, list) and row[0] == "f":
                live -= sizes.pop(row[1])
            peak = max(peak, live)
        self.assertLess(peak, 140 * GIB)
        return peak

    def test_it_runs_out_where_a_handler_names_the_error(self):
        self.assertGreater(self.handled(BY_CLASS), 60 * GIB)

    def test_it_runs_out_at_a_share_of_the_card_where_a_handler_looks_for_its_words(self):
        self.assertLessEqual(self.handled(BY_WORDS), 70 * GIB)

    @unittest.skipUnless(find_spec("accelerate"), "needs accelerate")
    def test_it_runs_out_where_accelerate_looks_for_a_batch(self):
        rows = rows_of(self, BY_ACCELERATE)
        self.assertIn("ran out at", "\n".join(rows[-1]["notes"]))

    def test_any_other_program_gets_all_that_it_asks_for(self):
        rows = rows_of(self, NOT_HANDLED)
        asked = [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]
        self.assertIn(300 * GIB, asked)
        self.assertIn(200 * GIB, asked)
        self.assertNotIn("ran out at", "\n".join(rows[-1]["notes"]))


# Programs that keep a part of their training in host memory.

OFFLOADED = """
import torch
from torch import nn

# The optimizer works on copies in host memory, small ones and large ones.
for width in (64, 1100):
    copies, model = nn.Linear(width, width), nn.Linear(width, width).cuda()
    model.load_state_dict(copies.state_dict())
    optimizer = torch.optim.Adam(copies.parameters())
    for _ in range(4):
        model(torch.randn(16, width, device="cuda")).sum().backward()
        for copied, parameter in zip(copies.parameters(), model.parameters()):
            copied.grad = parameter.grad.to("cpu", non_blocking=True).float()
            parameter.grad = None
            assert copied.grad.device.type == "cpu"
        optimizer.step()
        with torch.no_grad():
            for copied, parameter in zip(copies.parameters(), model.parameters()):
                parameter.copy_(copied, non_blocking=True)

# Numbers of the host whose gradient comes from the GPU.
numbers = torch.zeros(1100, 1100, requires_grad=True)
numbers.grad = torch.ones(1100, 1100, device="cuda").cpu()
torch.optim.SGD([numbers], 0.1).step()
numbers.grad = None

pinned = torch.randn(100, 10).pin_memory()
assert pinned.is_pinned() and pinned[:5].is_pinned() and pinned.cuda().is_cuda
assert torch.empty(3, pin_memory=True).is_pinned() and not torch.empty(3).is_pinned()
assert torch.empty_like(next(copies.parameters()), device="cpu", pin_memory=True).is_pinned()

shared = torch.zeros(4, 8).share_memory_()
assert shared.is_shared()
assert next(nn.Linear(4, 4).share_memory().parameters()).device.type == "cpu"
"""


class Offloading(unittest.TestCase):
    def test_gradients_go_to_copies_in_host_memory(self):
        asked = [
            row[2] for row in rows_of(self, OFFLOADED) if isinstance(row, list) and row[0] == "a"
        ]
        # The weights, and their gradients four times; what the optimizer keeps is not on the GPU.
        self.assertEqual(asked.count(1100 * 1100 * 4), 1 + 4 + 1)


# Ranks that a program starts as processes of `multiprocessing`.

STARTED_RANKS_PROGRAM = """
import multiprocessing, os
import torch
import torch.distributed as dist


def train(rank, world_size):
    assert rank == 0 and os.getpid() == parent
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(999, 77).cuda())
    model(torch.zeros(5, 999, device="cuda")).sum().backward()
    raise SystemExit(0)


def count(number, told):
    told.put((number, os.getpid(), "cuda"))


def add(number, total):
    "On cuda later."
    with total.get_lock():
        total.value += number


def write(number):
    open(f"{number}.txt", "w").close()


if __name__ == "__main__":
    parent = os.getpid()
    multiprocessing.set_start_method("fork")
    ranks = [multiprocessing.Process(target=train, args=(rank, 4)) for rank in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0] * 4
    assert not any(rank.is_alive() for rank in ranks)
    # The others are not ranks: they run in processes of their own.
    told = multiprocessing.Queue()
    other = multiprocessing.Process(target=count, args=(7, told))
    other.start()
    number, process, _ = told.get()
    other.join()
    assert number == 7 and process != parent
    total = multiprocessing.Value("i", 5)
    adder = multiprocessing.Process(target=add, args=(2, total))
    adder.start()
    adder.join()
    assert total.value == 7 and adder.pid != parent
    writer = multiprocessing.Process(target=write, args=(1,))
    writer.start()
    writer.join()
    assert os.path.exists("1.txt")
"""


class StartedRanks(unittest.TestCase):
    def test_the_first_runs_here_and_others_are_not_started(self):
        rows = rows_of(self, STARTED_RANKS_PROGRAM)
        asked = [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]
        self.assertEqual(asked.count(999 * 77 * 4), 2, "weights and gradients")


CRASH = """
import faulthandler, os, torch
faulthandler.enable()
model = torch.nn.Linear(8, 8).cuda()

def step():
    model(torch.ones(2, 8, device="cuda")).sum().backward()
    os.abort()

step()
"""

FAILS = """
import torch

def step(settings):
    model = torch.nn.Linear(8, 8).cuda()
    return settings["missing"]

try:
    step({})
except KeyError as error:
    raise ValueError("no settings") from error
"""


def traced(folder, text):
    with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
        file.write(text)
    command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--output", "t.jsonl"]
    return warm.run(
        [*command, "--program", "train.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PACKAGE, "PLIMSOLL_DEBUG": ""},
        capture_output=True,
        text=True,
        check=False,
    )


class Crashes(unittest.TestCase):
    def test_the_stack_of_a_crash_lies_beside_the_trace_that_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            done = traced(folder, CRASH)
            self.assertEqual(done.returncode, -signal.SIGABRT, done.stdout + done.stderr)
            self.assertFalse(os.path.exists(os.path.join(folder, "t.jsonl")))
            with open(os.path.join(folder, "t.jsonl.crash"), encoding="utf-8") as file:
                report = file.read()
        self.assertIn("Current thread", report)
        self.assertIn('  File "train.py", line 8 in step\n', report)

    def test_a_program_that_fails_shows_its_own_traceback(self):
        with tempfile.TemporaryDirectory() as folder:
            done = traced(folder, FAILS)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn('"code": "program-failed"', done.stdout)
        self.assertIn('  File "train.py", line 9, in <module>\n', done.stderr)
        self.assertIn('  File "train.py", line 6, in step\n', done.stderr)
        self.assertIn("KeyError: 'missing'", done.stderr)
        self.assertTrue(done.stderr.endswith("ValueError: no settings\n"), done.stderr)
        self.assertNotIn("plimsoll", done.stderr)


if __name__ == "__main__":
    unittest.main()
