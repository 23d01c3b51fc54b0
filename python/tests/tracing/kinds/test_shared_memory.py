"""Tensors that share memory share it in copies, and in files that are loaded again; each stays where it was."""

import json
import os
import sys
import tempfile
import unittest

import warm

from tracing import PACKAGE

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


def run(text, folder, *before):
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
        self.trace = ["-m", "plimsoll.trace", "--output", "t.jsonl", "--program"]

    def test_tied_tensors_stay_tied_in_a_trace_as_without_one(self):
        traced = run(TIED, self.folder, *self.trace)
        self.assertEqual(traced.returncode, 0, traced.stdout + traced.stderr)
        plain = run(TIED, self.folder)
        self.assertEqual(plain.returncode, 0, plain.stdout + plain.stderr)

    def test_a_file_is_counted_once_and_where_it_was(self):
        traced = run(COUNTED, self.folder, *self.trace)
        self.assertEqual(traced.returncode, 0, traced.stdout + traced.stderr)
        with open(os.path.join(self.folder, "t.jsonl"), encoding="utf-8") as file:
            _, *events, _ = map(json.loads, file)
        large = [event[2] for event in events if event[0] == "a" and event[2] >= 1024]
        # Made, loaded, and loaded with all that lay in host memory.
        weight, host = 256 * 256 * 4, 512 * 512 * 4
        self.assertEqual(large, [weight, weight, weight, host])
