"""Host memory that was freed is used again, without new pages from the system, or given back before much is taken."""

import gzip
import json
import os
import platform
import resource
import sys
import tempfile
import unittest
from argparse import Namespace
from unittest import mock

import torch

import warm
from tracing.watching import rows_of, watched
from warm import PACKAGE

from plimsoll_trace.programs import run
from plimsoll_trace.programs.reserved import Reserved

ROUNDS = """
import random, resource, torch
from plimsoll_trace.programs.devices.moves import keep_freed_memory

torch.set_num_threads(1)
keep_freed_memory()
random.seed(0)

def round_of_arrays():
    live, size = [], 0
    for _ in range(24):
        live.append(torch.ones(random.randint(1, 30) << 18))
        size += live[-1].nbytes
        del live[:-3]
    return size

for _ in range(3):
    round_of_arrays()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
size = sum(round_of_arrays() for _ in range(6))
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults * resource.getpagesize() / size)
"""


GIVEN_BACK = """
import torch
from plimsoll_trace.programs.devices.moves import give_freed_memory_back, keep_freed_memory

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

keep_freed_memory()
arrays = [torch.ones(4 << 18) for _ in range(32)]
most = held()
del arrays[:-1]
before = held()
give_freed_memory_back()
print(most - before, most - held())
"""


class Reached(Exception):
    pass


class FreedMemory(unittest.TestCase):
    @unittest.skipUnless(platform.libc_ver()[0] == "glibc", "only glibc's allocator is set")
    def test_large_arrays_one_after_another_take_few_new_pages(self):
        self.assertLess(float(_printed(ROUNDS)), 0.06)

    @unittest.skipUnless(platform.libc_ver()[0] == "glibc", "only glibc's allocator is set")
    def test_what_was_kept_is_given_back(self):
        kept, given_back = (int(n) * resource.getpagesize() for n in _printed(GIVEN_BACK).split())
        self.assertLess(kept, 8 << 20)
        self.assertGreater(given_back, 100 << 20)

    def test_programs_are_run_so(self):
        with mock.patch.object(run, "keep_freed_memory", side_effect=Reached):
            options = Namespace(program=["train.py"], cards=1, scratch=None)
            self.assertRaises(Reached, run.record, options, None, mock.Mock(), mock.Mock())


def _printed(code: str) -> str:
    return warm.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": PACKAGE},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


# What a program is told that asks how much the allocator holds.

RECORDED = os.path.join(PACKAGE, "..", "bench", "truth", "allocator-sequences.json.gz")
MIB = 2**20


class Held(unittest.TestCase):
    def test_after_each_request_what_a_card_held(self):
        with gzip.open(RECORDED) as file:
            sequences = json.load(file)["sequences"]
        plain = [s for s in sequences if not s["conf"] and s["capBytes"] is None]
        self.assertGreater(len(plain), 0)
        for sequence in plain:
            events: list = []
            held = Reserved(events, sequence["totalBytes"])
            for kind, number, size, allocated, reserved, *_ in sequence["steps"]:
                events.append(["a", number, size, 0, 0, "t"] if kind else ["f", number])
                self.assertEqual((allocated, reserved), (held.allocated(), held.now()))

    def test_peaks_that_are_reset_segments_that_are_given_back_and_a_card_that_is_full(self):
        events = [
            ["a", 1, 30 * MIB, 0, 0, "w"],
            ["o", 3 * MIB, 0, 1.0, 1],
            ["a", 2, 5, 0, 0, "w", 7],
        ]
        held = Reserved(events, 60 * MIB)
        self.assertEqual((52 * MIB, 33 * MIB), (held.now(), held.peak_allocated()))
        events += [["f", 1], ["c"]]
        self.assertEqual((2 * MIB, 52 * MIB, 512), (held.now(), held.peak(), held.allocated()))
        held.reset_peaks()
        self.assertEqual((2 * MIB, 512), (held.peak(), held.peak_allocated()))
        events += [
            ["a", 3, 40 * MIB, 0, 0, "w"],
            ["f", 3],
            ["m", "x"],
            ["a", 4, 50 * MIB, 0, 0, "w"],
        ]
        self.assertEqual((52 * MIB, 52 * MIB), (held.now(), held.peak()))


# Tensors that share memory share it in copies, and in files that are loaded again; each stays where it was.

TIED = """
import copy, io, pickle, torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(1000, 64), nn.Linear(64, 1000, bias=False)
        self.head.weight = self.words.weight

def one(a, b):
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata

def check(name, first, second, where, size=256_000):
    assert one(first, second), (name, where)
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr(), (name, where)
    assert first.device.type == second.device.type == where, (name, where, first.device)
    assert first.untyped_storage().nbytes() == size, (name, where)

# Attributes of a tensor are written in a way of their own.
for where in ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",):
    model = Model().to(where)
    other = Model().to(where)
    # By these libraries tell which weights share memory.
    assert model.head.weight.untyped_storage().data_ptr() != other.head.weight.untyped_storage().data_ptr(), where
    assert model.head.weight.untyped_storage().data_ptr() == model.head.weight.data_ptr(), where
    for name, copied in (("deepcopy", copy.deepcopy(model)), ("pickle", pickle.loads(pickle.dumps(model)))):
        check(name, copied.words.weight, copied.head.weight, where)
    torch.save(model, "model.pt")
    whole = torch.load("model.pt", weights_only=False)
    check("module", whole.words.weight, whole.head.weight, where)
    state = model.state_dict()
    copied = copy.deepcopy(state)
    check("state", copied["words.weight"], copied["head.weight"], where)
    torch.save(state, "state.pt")
    memory = io.BytesIO()
    torch.save(state, memory)
    memory.seek(0)
    with open("state.pt", "rb") as file:
        loaded = [torch.load("state.pt"), torch.load(memory), torch.load(file), torch.load("state.pt", mmap=True)]
    for each in loaded:
        check("loaded", each["words.weight"], each["head.weight"], where)
    for target in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        mapped = torch.load("state.pt", map_location=target)
        check("mapped", mapped["words.weight"], mapped["head.weight"], target)
    other = Model().to(where)
    other.load_state_dict(loaded[0])
    check("into", other.words.weight, other.head.weight, where)
    other.load_state_dict(loaded[0], assign=True)
    check("assigned", other.words.weight, other.head.weight, where)
    base = torch.zeros(100, 10, device=where)
    part = base[10:20]
    part.label = "part"
    torch.save([base, part], "views.pt")
    for name, (first, second) in (("views", torch.load("views.pt")), ("copied", copy.deepcopy([base, part]))):
        check(name, first, second, where, 4000)
        assert second.storage_offset() == 100 and second.shape == (10, 10) and second.label == "part"
    del model, whole, state, copied, memory, loaded, mapped, other, base, part, first, second, each
"""

# Two halves of one file: of the weights one allocation, and none for what stays in host memory.
COUNTED = """
import torch
weight = torch.zeros(256, 256, device="cuda")
host = torch.nn.Linear(512, 512, bias=False)
torch.save({"a": weight, "b": weight, "host": host.state_dict(), "step": torch.tensor(7)}, "all.pt")
del weight, host
loaded = torch.load("all.pt")
assert loaded["step"].item() == 7 and not loaded["step"].is_cuda
assert torch.load("all.pt", map_location="cuda")["step"].item() == 7
"""


def run_of_shared_memory(text, folder, *before):
    with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
        file.write(text)
    return warm.run(
        [sys.executable, "-W", "ignore", *before, "train.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PACKAGE, "PLIMSOLL_DEBUG": ""},
        capture_output=True,
        text=True,
        check=False,
    )


class SharedMemory(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.trace = ["-m", "plimsoll_trace", "--output", "t.jsonl", "--program"]

    def test_tied_tensors_stay_tied_in_a_trace_as_without_one(self):
        traced = run_of_shared_memory(TIED, self.folder, *self.trace)
        self.assertEqual(traced.returncode, 0, traced.stdout + traced.stderr)
        plain = run_of_shared_memory(TIED, self.folder)
        self.assertEqual(plain.returncode, 0, plain.stdout + plain.stderr)

    def test_a_file_is_counted_once_and_where_it_was(self):
        traced = run_of_shared_memory(COUNTED, self.folder, *self.trace)
        self.assertEqual(traced.returncode, 0, traced.stdout + traced.stderr)
        with open(os.path.join(self.folder, "t.jsonl"), encoding="utf-8") as file:
            _, *events, _ = map(json.loads, file)
        large = [event[2] for event in events if event[0] == "a" and event[2] >= 1024]
        # Made, loaded, and loaded with all that lay in host memory.
        weight, host = 256 * 256 * 4, 512 * 512 * 4
        self.assertEqual(large, [weight, weight, weight, host])


# Streams that a program makes: each has memory of its own, and PyTorch hands out 32 of each priority in turn.

PREFETCHED = """
import torch
from torch.cuda import Stream, current_stream, stream

class Prefetched:
    def __iter__(self):
        side, batch = Stream(), None
        for _ in range(4):
            with stream(side):
                following = torch.zeros(3000, 1000).to("cuda", non_blocking=True)
            if batch is not None:
                yield batch
            current_stream().wait_stream(side)
            batch = following
        yield batch

model = torch.nn.Linear(1000, 10).cuda()
for epoch in range(3):
    for batch in Prefetched():
        model(batch).sum().backward()
"""

MADE = """
import torch

sides = [torch.cuda.Stream() for _ in range(33)]
urgent = torch.cuda.Stream(priority=-1)
assert torch.cuda.current_stream() is torch.cuda.default_stream()
with torch.cuda.stream(sides[1]):
    assert torch.cuda.current_stream() is sides[1]
    with urgent:
        a = torch.empty(1_000_000, device="cuda")
    with torch.cuda.stream(None):
        b = torch.empty(1_000_000, device="cuda")
    c = torch.empty(1_000_000, device="cuda")
with torch.cuda.stream(sides[32]):
    d = torch.empty(1_000_000, device="cuda")
torch.cuda.set_stream(sides[4])
e = torch.empty(1_000_000, device="cuda")
with torch.cuda.stream(torch.cuda.default_stream()):
    f = torch.empty(1_000_000, device="cuda")
g = torch.empty(1_000_000, device="cuda")
torch.cuda.set_stream(torch.cuda.default_stream())
h = torch.empty(1_000_000, device="cuda")
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) > 0
"""

PRODUCTS = """
import torch

a = torch.empty(100, 100, device="cuda")
a @ a
with torch.cuda.stream(torch.cuda.Stream()):
    a @ a
    a @ a
"""

# As Lightning does after fit().
CLEARED = (
    PRODUCTS
    + """
torch._C._cuda_clearCublasWorkspaces()
torch.empty(7_000_000, dtype=torch.uint8, device="cuda")
a @ a
"""
)


def streams(rows, size):
    """The stream of each allocation of this size."""
    asked = [row for row in rows if isinstance(row, list) and row[0] == "a" and row[2] == size]
    return [row[6] if len(row) > 6 else 0 for row in asked]


class Streams(unittest.TestCase):
    def test_each_epoch_of_a_loader_that_makes_a_stream_has_memory_of_its_own(self):
        self.assertEqual(
            streams(rows_of(self, PREFETCHED), 12_000_000), [1] * 4 + [2] * 4 + [3] * 4
        )

    def test_allocations_are_asked_for_on_the_stream_that_was_entered_or_set(self):
        self.assertEqual(streams(rows_of(self, MADE), 4_000_000), [33, 2, 2, 1, 5, 0, 5, 0])

    def test_matrix_products_have_a_workspace_for_each_stream(self):
        rows = rows_of(self, PRODUCTS)
        kept = [row for row in rows if isinstance(row, list) and row[0] == "a" and row[5] == "k"]
        self.assertEqual([row[6] if len(row) > 6 else 0 for row in kept], [0, 1])

    def test_workspaces_that_are_given_back_are_asked_for_again_where_they_are_needed(self):
        rows = [row for row in rows_of(self, CLEARED) if isinstance(row, list)]
        kept = [row[1] for row in rows if row[0] == "a" and row[5] == "k"]
        self.assertEqual(len(kept), 3)
        marker = next(at for at, row in enumerate(rows) if row[0] == "a" and row[2] == 7_000_000)
        self.assertLess(set(kept[:2]), {row[1] for row in rows[:marker] if row[0] == "f"})


# Compiled programs that ask for CUDA graphs: memory in a pool of its own.

TRAINING = """
import sys, torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 512)).cuda()
run = torch.compile(model, mode=sys.argv[1])
for _ in range(3):
    torch.relu(run(torch.zeros(2048, 256).cuda())).sum().backward()
"""
CUDA_GRAPHS_RECORDED = """
import torch
from torch import nn

model = nn.Linear(256, 512).cuda()
optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
given = torch.zeros(2048, 256, device="cuda")

def step():
    optimizer.zero_grad(set_to_none=True)
    model(given).sum().backward()
    optimizer.step()

aside = torch.cuda.Stream()
with torch.cuda.stream(aside):
    step()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, pool=torch.cuda.graph_pool_handle()):
    step()
for _ in range(100):
    given.copy_(torch.zeros(2048, 256))
    graph.replay()
step()
graph.reset()
run = torch.cuda.make_graphed_callables(model, (given,))
run(given).sum().backward()
"""
INPUT, RESULT, WORKSPACE = 2048 * 256 * 4, 2048 * 512 * 4, 32 << 20
POOL = 255
# The stream on which the program warms up.
SIDE = 1


class CudaGraphs(unittest.TestCase):
    def trace(self, mode, program=TRAINING):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
                file.write(program)
            output = os.path.join(folder, "trace.jsonl")
            command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--output", output]
            done = warm.run(
                [*command, "--program", "train.py", mode],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": PACKAGE},
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(output, encoding="utf-8") as file:
                _, *events, footer = map(json.loads, file)
        return events, footer

    def test_steps_that_a_program_records_lie_in_the_pool_and_are_run_once(self):
        events, footer = self.trace("", CUDA_GRAPHS_RECORDED)
        self.assertTrue(any("that the program records" in note for note in footer["notes"]))
        self.assertTrue(any("make_graphed_callables" in note for note in footer["notes"]))
        self.assertTrue(footer["graphs"])
        results = [event for event in events if event[0] == "a" and event[2] == RESULT]
        self.assertEqual([event[6:] for event in results], [[SIDE], [POOL], [], []])

    def test_what_compiled_code_asks_for_lies_in_the_pool_and_all_else_does_not(self):
        events, footer = self.trace("reduce-overhead")
        self.assertTrue(any("CUDA graphs were followed" in note for note in footer["notes"]))
        self.assertTrue(footer["fused"])
        self.assertFalse(footer["graphs"])
        asked = {event[1]: event for event in events if event[0] == "a"}
        pooled = [event for event in asked.values() if event[6:] == [POOL]]
        # The results of the compiled part; those of the rest lie elsewhere.
        self.assertTrue(any(event[2] == RESULT for event in pooled))
        self.assertTrue(any(event[2] == RESULT and event[6:] == [] for event in asked.values()))
        # The library gives its workspace back after each call.
        freed = {event[1] for event in events if event[0] == "f"}
        workspaces = {event[1] for event in pooled if event[2] == WORKSPACE}
        self.assertTrue(workspaces)
        self.assertLessEqual(workspaces, freed)

    def test_a_recording_has_copies_of_what_it_is_given_and_empties_the_cache_first(self):
        events, _ = self.trace("reduce-overhead")
        names = {event[1]: event[2] for event in events if event[0] == "s"}
        copied = [
            event for event in events if event[0] == "a" and names[event[3]] == "cuda graph input"
        ]
        # Forward is given the input, backward the input that was kept and the gradient of the result;
        # parameters stay where they are.
        self.assertEqual([event[2] for event in copied], [INPUT, INPUT, RESULT])
        self.assertEqual(sum(event[0] == "c" for event in events), 2)
        self.assertEqual(events[events.index(copied[0]) + 1], ["c"])

    def test_where_kernels_are_tried_graphs_are_left_out_and_that_is_said(self):
        _, footer = self.trace("max-autotune")
        self.assertTrue(footer["compiled"])
        self.assertTrue(footer["graphs"])
        self.assertTrue(any("CUDA graphs were left out" in note for note in footer["notes"]))


# When kernels of some kinds first run, beside where an H200's driver took address space.


def launched(observer):
    return [event[1] for event in observer.ledger.events if event[0] == "k"]


class Launches(unittest.TestCase):
    def test_a_model_that_is_only_laid_out_runs_none(self):
        with watched() as observer:
            weight = torch.empty(64, 64, device="meta")
            torch.nn.init.normal_(weight).view(-1)
            self.assertEqual(launched(observer), [])

    def test_the_first_that_fills_is_the_first_and_each_kind_counts_once(self):
        with watched() as observer:
            ones = torch.ones(64, device="meta")
            self.assertEqual(launched(observer), ["kernel"])
            torch.relu(ones + ones)
            self.assertEqual(launched(observer), ["kernel"])
            ones.mean()
            torch.nn.functional.embedding(
                torch.zeros(3, dtype=torch.long, device="meta"), ones[:, None]
            )
            self.assertEqual(launched(observer), ["kernel", "checking"])

    def test_a_number_to_the_power_of_a_tensor_checks(self):
        with watched() as observer:
            torch.arange(4.0, device="meta") ** 2
            self.assertEqual(launched(observer), ["kernel"])
            10000 ** torch.arange(4.0, device="meta")
            self.assertEqual(launched(observer), ["kernel", "checking"])

    def test_convolutions_of_lines_differ_from_those_of_images(self):
        for dims, kind in ((1, "lines"), (2, "images")):
            with self.subTest(dims=dims), watched() as observer:
                x = torch.empty(2, 3, *[8] * dims, device="meta")
                weight = torch.empty(4, 3, *[3] * dims, device="meta")
                convolve = torch.conv1d if dims == 1 else torch.conv2d
                convolve(convolve(x, weight), torch.empty(4, 4, *[3] * dims, device="meta"))
                self.assertEqual(launched(observer), ["kernel", kind])


if __name__ == "__main__":
    unittest.main()
