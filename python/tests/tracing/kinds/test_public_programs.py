"""What stopped programs that others wrote: each cause in a program of our own."""

import json
import os
import sys
import tempfile
import unittest
from importlib.util import find_spec

import torch

import warm
from warm import PACKAGE

EVALUATION = """
import torch
from torch import nn

parts = [nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)) for _ in range(36)]
model = nn.Sequential(*parts).cuda()
optimizer = torch.optim.AdamW(model.parameters())
context = torch.autocast("cuda", dtype=torch.bfloat16)
kept = []

@torch.no_grad()
def evaluate():
    model.eval()
    for _ in range(800):
        x = torch.ones(64, 64).cuda()
        with context:
            y = model(x)
            loss = y.square().mean()
        assert y.shape == (64, 64) and y.dtype == torch.float32 and y.is_cuda
        if len(kept) < 500:
            kept.append(y)
    model.train()
    return loss.item()

evaluate()
for step in range(4):
    with context:
        loss = model(torch.ones(512, 64, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""

HOST_BATCHES = """
import torch
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
words = torch.zeros(100_000)
for _ in range(100):
    # One by one, as programs cut a batch out of a long text.
    for place in torch.randint(90_000, (800,)):
        words[place : place + 1]
for step in range(4):
    model(torch.ones(8, 64, device="cuda")).sum().backward()
    optimizer.step()
"""

LINKS = """
import os, shutil, torch
torch.save({"a": 1}, "new.pt")
os.replace("new.pt", "last.pt")
os.link("last.pt", "linked.pt")
os.symlink("last.pt", "newest.pt")
shutil.copy2("last.pt", "best.pt")
for name in ("last.pt", "linked.pt", "newest.pt", "best.pt"):
    assert torch.load(name) == {"a": 1}, name
for step in range(4):
    folder = f"out/checkpoint-{step}"
    os.makedirs(folder + "/parts", exist_ok=True)
    torch.save({"a": torch.zeros(8, device="cuda")}, folder + "/parts/a.pt")
    if step > 1:
        shutil.rmtree(f"out/checkpoint-{step - 2}")
assert sorted(os.listdir("out")) == ["checkpoint-2", "checkpoint-3"], os.listdir("out")
assert not os.path.exists("out/checkpoint-0") and os.path.isdir("out/checkpoint-3")
torch.nn.Linear(4, 4).cuda()(torch.ones(1, 4, device="cuda"))
"""

BOXES = """
import torch, torchvision
boxes, scores = torch.rand(1000, 4, device="cuda"), torch.rand(1000, device="cuda")
kept = torchvision.ops.nms(boxes, scores, 0.5)
assert kept.is_cuda and kept.dtype == torch.int64 and 0 < len(kept) <= 1000
model = torch.nn.Linear(4, 4).cuda()
model(boxes[kept]).sum().backward()
"""

# As `evaluate` does with metrics, and transformers with code that comes with a model.
WRITES_MODULES = """
import importlib, os, sys, torch
cache = os.environ["HF_DATASETS_CACHE"]
os.makedirs(cache + "/made/inner")
sys.path.append(cache)
for path, text in {
    "made/__init__.py": "WIDTH = 4",
    "made/inner/__init__.py": "",
    "made/inner/layers.py": "from .. import WIDTH\\nfrom .sizes import DEPTH",
    "made/inner/sizes.py": "DEPTH = 2",
}.items():
    with open(cache + "/" + path, "w") as file:
        file.write(text)
importlib.invalidate_caches()
layers = importlib.import_module("made.inner.layers")
model = torch.nn.Linear(layers.WIDTH, layers.DEPTH).cuda()
model(torch.ones(1, 4, device="cuda")).sum().backward()
"""

TABLES = """
import numpy, torch
from torch import nn

table = nn.EmbeddingBag(1000, 64, mode="sum", sparse=True)
table.weight.data = torch.tensor(numpy.ones((1000, 64), dtype=numpy.float32), requires_grad=True)
assert isinstance(table.weight, nn.Parameter) and not table.weight.is_cuda
table.cuda()
assert isinstance(table.weight, nn.Parameter) and table.weight.is_cuda and table.weight.requires_grad
table.weight.data = torch.zeros(1000, 64)
assert isinstance(table.weight, nn.Parameter) and not table.weight.is_cuda
other = torch.ones(3)
other.data = torch.ones(4, device="cuda")
assert other.is_cuda and other.shape == (4,)
"""

# As libraries make each parameter of a model once more, of its own kind, without memory.
MADE_AGAIN = """
import torch
from torch import nn

class Scaled(nn.Parameter):
    def __new__(cls, data, requires_grad=True, scale=1):
        made = super().__new__(cls, data, requires_grad)
        made.scale = scale
        return made

first = Scaled(torch.ones(8, 8), scale=3)
norm = nn.LayerNorm(8)
for given in (first, norm.weight):
    kind, options = type(given), given.__dict__
    options["requires_grad"] = given.requires_grad
    again = kind(given.to("meta"), **options)
    assert type(again) is kind and again.shape == given.shape
    assert getattr(again, "scale", 3) == 3
nn.Linear(8, 4).cuda()(torch.ones(1, 8, device="cuda")).sum().backward()
"""

CARD = """
import torch

card = torch.cuda.get_device_properties(0)
assert card.L2_cache_size >= 1 << 20 and card.max_threads_per_block == 1024
assert card.shared_memory_per_block_optin >= card.shared_memory_per_block == 48 << 10
torch.zeros(card.warp_size, device="cuda")
"""

KERNELS = """
import torch, triton
import triton.language as tl

def doubled(x_ptr, y_ptr, count_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + places, 2 * tl.load(x_ptr + places, mask=places < n), mask=places < n)
    tl.atomic_add(count_ptr, 1)

sizes = [triton.Config({"BLOCK": size}) for size in (64, 128)]
kernel = triton.autotune(configs=sizes, key=["n"])(triton.jit(doubled))
assert triton.runtime.driver.active.get_active_torch_device().type == "cuda"

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        y, count = torch.empty_like(x), torch.zeros(1, dtype=torch.int, device="cuda")
        kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, count, x.numel())
        # Zero programs would have run, had the kernel not written.
        1 / count.item()
        return y

    @staticmethod
    def backward(context, gradient):
        return 2 * gradient

model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    Doubled.apply(model(torch.ones(512, 1024, device="cuda"))).sum().backward()
    optimizer.step()
"""

SHAPES = """
import torch
images = torch.ones(8, 512, device="cuda")
# As accelerate compares the shapes of all ranks.
sizes = torch.tensor(images.shape, device=images.device)[None]
assert max(size[1] for size in sizes.cpu()) == 512, sizes.cpu()
assert torch.tensor([3, 4], device="cuda").tolist() == [3, 4]
torch.nn.Linear(512, 4).cuda()(images)
"""

PRODUCTS = """
import torch
a, b = (torch.ones(64, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2))
total = torch.zeros(64, 64, device="cuda")
torch.addmm(total, a, b, out_dtype=torch.float32, out=total)
assert torch.addmm(total, a, b, out_dtype=torch.float32).dtype == torch.float32
more = torch.baddbmm(total[None], a[None], b[None], out_dtype=torch.float32)
assert more.shape == (1, 64, 64) and more.is_cuda
torch.nn.Linear(64, 4).cuda()(total)
"""

# As much of the library as reads what it wrote without Python's `open`.
ARROW = {
    "__init__.py": """
import _io

def memory_map(path, mode="r"):
    return _io.open(path, mode)

input_stream = memory_map
""",
}
MAPS = """
import pyarrow, torch
with open("rows.arrow", "w") as file:
    file.write("rows")
assert pyarrow.memory_map("rows.arrow").read() == "rows"
assert pyarrow.input_stream("rows.arrow").read() == "rows"
torch.nn.Linear(4, 4).cuda()(torch.ones(1, 4, device="cuda"))
"""

TOKENIZERS = """
import os, torch
from tokenizers import Tokenizer, models
os.makedirs("checkpoint")
words = {"[UNK]": 0, "ship": 1, "line": 2}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
tokenizer.save("checkpoint/tokenizer.json")
assert Tokenizer.from_file("checkpoint/tokenizer.json").get_vocab_size() == 3
tokenizer.model.save("checkpoint")
assert os.path.exists("checkpoint/vocab.json")
torch.nn.Linear(4, 4).cuda()(torch.ones(1, 4, device="cuda"))
"""

MASKS = """
import torch
words, others = torch.zeros(4, 8, dtype=torch.long), torch.ones(4, 8, dtype=torch.long)
chosen = torch.bernoulli(torch.full((4, 8), 0.5)).bool()
# As collators do in host memory.
words[chosen] = others[chosen]
assert words.sum() == chosen.sum() == len(words.masked_select(chosen))
starts = (torch.tensor([0, 1, 2, 0, 1]) == 0).nonzero().flatten()
assert torch.cat([starts, torch.tensor([5])]).tolist() == [0, 3, 5]
torch.nn.Linear(8, 4).cuda()(words.float().cuda())
"""

# As much of the library as makes options of a Trainer's signature.
TRAINER = {
    "__init__.py": "",
    "trainer/__init__.py": "",
    "trainer/trainer.py": """
class Trainer:
    def __init__(self, *, max_epochs: int = 10, limit_train_batches: float = 1.0, **others) -> None:
        self.max_epochs, self.limit = max_epochs, limit_train_batches
""",
}
# Which views of a batch are of one picture, as numbers: all but the diagonal, then one of each row and the others.
PAIRS = """
import torch
n = 512
labels = torch.cat([torch.arange(n) for _ in range(2)])
labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float().to("cuda")
features = torch.randn(2 * n, 64, device="cuda", requires_grad=True)
similar = features @ features.T
mask = torch.eye(2 * n, dtype=torch.bool).to("cuda")
labels = labels[~mask].view(2 * n, -1)
similar = similar[~mask].view(2 * n, -1)
positives = similar[labels.bool()].view(2 * n, -1)
negatives = similar[~labels.bool()].view(2 * n, -1)
assert positives.shape == (2 * n, 1), positives.shape
assert negatives.shape == (2 * n, 2 * n - 2), negatives.shape
torch.cat([positives, negatives], 1).sum().backward()
"""

OPTIONS = """
import inspect, torch
from pytorch_lightning.trainer.trainer import Trainer
options = inspect.signature(Trainer.__init__).parameters
assert options["max_epochs"].default == 10 and "limit_train_batches" in options, options
assert Trainer(max_epochs=100).max_epochs == 3
torch.nn.Linear(4, 4).cuda()(torch.ones(1, 4, device="cuda"))
"""

# It ends its epochs itself, by the number of batches that it was given.
EPOCHS = """
import torch
from pytorch_lightning.trainer.trainer import Trainer
from torch.utils.data import DataLoader

model = torch.nn.Linear(4, 4).cuda()
loader = DataLoader(torch.zeros(62, 4), batch_size=6)


def fit(trainer):
    seen = []
    for epoch in range(2):
        for number, batch in enumerate(loader):
            if number == trainer.limit:
                break
            model(batch.cuda()).sum().backward()
            seen.append(len(batch))
    return seen


assert fit(Trainer(max_epochs=2)) == [6, 6, 6, 6, 6, 2]
# These epochs would not reach the last batch.
assert fit(Trainer(limit_train_batches=5)) == [6] * 6
"""

# 800 MB of weights, which it would write into memory before it writes them into the file.
SAVES = """
import os, resource, torch
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO

model = torch.nn.Linear(20_000, 10_000).cuda()
model(torch.ones(1, 20_000, device="cuda"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
TorchCheckpointIO().save_checkpoint({"state": model.state_dict()}, "last.ckpt")
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
assert os.path.getsize("last.ckpt") > 800_000_000
again = torch.load(open("last.ckpt", "rb"), map_location="cpu")
assert again["state"]["weight"].shape == (10_000, 20_000)
"""

# As much of the library as saves a checkpoint.
SAVER = {
    "__init__.py": "",
    "plugins/__init__.py": "",
    "plugins/io/__init__.py": "",
    "plugins/io/torch_io.py": """
import io, torch

def _atomic_save(checkpoint, filepath):
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    with open(filepath, "wb") as file:
        file.write(buffer.getvalue())

class TorchCheckpointIO:
    def save_checkpoint(self, checkpoint, path):
        _atomic_save(checkpoint, path)
""",
}

# As much of the library as decides where it converts data sets to.
DATA_SETS = {
    "__init__.py": "",
    "config.py": "import os\nHF_DATASETS_CACHE = os.environ['HF_DATASETS_CACHE']\n",
    "builder.py": """
from . import config

class DatasetBuilder:
    def __init__(self, cache_dir=None):
        self.folder = f"{cache_dir or config.HF_DATASETS_CACHE}/json"
""",
}
CONVERTS = """
import _io, os, shutil, torch
from datasets.builder import DatasetBuilder
for cache in (None, os.environ["HF_DATASETS_CACHE"] + "-own"):
    folder = DatasetBuilder(cache).folder
    os.makedirs(folder + ".incomplete")
    with open(folder + ".incomplete/rows.arrow", "w") as file:
        file.write("rows")
    shutil.rmtree(folder + ".incomplete")
    os.makedirs(folder + ".incomplete")
    with open(folder + ".incomplete/rows.arrow", "w") as file:
        file.write("rows")
    os.rename(folder + ".incomplete", folder)
    # As Arrow does, not by the `open` of a program.
    assert _io.open(folder + "/rows.arrow").read() == "rows"
torch.nn.Linear(4, 4).cuda()(torch.ones(1, 4, device="cuda"))
"""


COMPLETIONS = """
import torch

# As texts that were generated are cut after the token that ends them: here none of them ends.
tokens = torch.multinomial(torch.rand(4, 50, device="cuda"), 40)
ends = torch.isin(tokens, torch.tensor([2], device="cuda"))
labels = torch.tensor([2, 3], device="cuda")
assert torch.isin(labels, torch.tensor([2], device="cuda")).tolist() == [True, False]
last = torch.full((4,), 40, device="cuda")
last[ends.any(dim=1)] = ends.int().argmax(dim=1)[ends.any(dim=1)]
kept = torch.arange(40, device="cuda").expand(4, -1) <= last.unsqueeze(1)
texts = [t[k].tolist() for t, k in zip(tokens.cpu(), kept.cpu())]
assert [len(text) for text in texts] == [40] * 4, texts
assert all(0 <= token < 50 for text in texts for token in text)

places = torch.arange(6, device="cuda")
places[torch.tensor([1, 4], device="cuda")] = torch.tensor([7, 9], device="cuda")
assert places.tolist() == [0, 7, 2, 3, 9, 5]
places[torch.randn(6, device="cuda").topk(2).indices] = 8
assert places.tolist() == [0] * 6, "not known where it was written"
# Memory that was not written yet has no value that the program could use.
assert torch.arange(6, device="cuda").new_empty_strided((900,), (1,)).tolist() == [0] * 900
assert torch.arange(6, device="cuda").resize_(900).tolist() == [0] * 900
"""


# As a score of links is computed: labels of both kinds, one behind the other, and of classes their probabilities.
SCORES = """
import torch
from sklearn.metrics import area_under_curve, report

there, others = torch.ones(9000, device="cuda"), torch.zeros(5000, device="cuda")
labels = torch.cat([there, others])
assert labels.cpu().unique().tolist() == [0.0, 1.0] and labels.sum().item() == 9000
labels[0] = labels.new_empty(1).normal_()[0]
features = torch.randn(14000, 8, device="cuda")
model = torch.nn.Linear(8, 3).cuda()
for scores in (model(features).softmax(-1), model(features).log_softmax(dim=1).exp()[:700]):
    rows = torch.cat([scores, scores[:100]]).cpu().detach().numpy()
    assert abs(rows.sum(1) - 1).max() < 1e-3 and (rows > 0).all()
    assert scores[:, 1].cpu().mean() > 0.1, "a part of each row is no row"
turned = model(features).softmax(0).cpu().detach().numpy()
assert area_under_curve(labels.cpu().numpy(), features[:, 0].cpu().numpy()) == 0.5
assert area_under_curve((features > 9).any(1).cpu().numpy(), y_score=turned) == 0.5
try:
    report([1, 2], [1, 2], names=["one"])
except ValueError as error:
    assert "names" in str(error)
else:
    raise AssertionError("an error of the program itself is raised")
model(features).sum().backward()
"""
# As much of the library as refuses values.
SKLEARN = {
    "__init__.py": "",
    "metrics/__init__.py": """
import numpy

__all__ = ["area_under_curve", "report"]

def area_under_curve(y_true, y_score):
    if (y_true != y_true.astype(int)).any():
        raise ValueError("continuous format is not supported")
    if len(numpy.unique(y_true)) < 2:
        raise ValueError("only one class is there")
    if y_score.ndim == 2 and abs(y_score.sum(1) - 1).max() > 1e-3:
        raise ValueError("scores need to be probabilities")
    return 0.5

def report(y_true, y_pred, names):
    if len(names) != len(numpy.unique(y_true)):
        raise ValueError("the number of names does not match")
""",
}


def phases_of(lines):
    """In their order; other marks tell batches and turns of loops."""
    marks = [line[1] for line in lines if line[0] == "m"]
    return [mark.removeprefix("phase:") for mark in marks if mark.startswith("phase:")]


class PublicPrograms(unittest.TestCase):
    def trace(self, text, **libraries):
        """The events of a program, by their kinds; it leaves no file."""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
                file.write(text)
            for name, files in libraries.items():
                for path, content in files.items():
                    whole = os.path.join(other, name, path)
                    os.makedirs(os.path.dirname(whole), exist_ok=True)
                    with open(whole, "w", encoding="utf-8") as file:
                        file.write(content)
            output = os.path.join(other, "trace.jsonl")
            settings = {
                "PYTHONPATH": os.pathsep.join((PACKAGE, other)),
                "PLIMSOLL_DEBUG": "",
                "HF_DATASETS_CACHE": os.path.join(other, "cache"),
            }
            command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--output", output]
            done = warm.run(
                [*command, "--program", "train.py"],
                cwd=folder,
                env={**os.environ, **settings},
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(os.listdir(folder), ["train.py"])
            with open(output, encoding="utf-8") as file:
                return list(map(json.loads, file))[1:-1]

    def test_a_long_evaluation_written_by_hand_ends_before_the_trace_does(self):
        lines = self.trace(EVALUATION)
        phases = phases_of(lines)
        self.assertEqual(phases, ["building", "evaluation", "first steps", "steady steps"])
        # What the program keeps of each pass is counted, whether it was run or written down.
        live, most = {}, 0
        for line in lines:
            if line[0] == "a":
                live[line[1]] = line[2]
            elif line[0] == "f":
                del live[line[1]]
            most = max(most, sum(1 for size in live.values() if size == 64 * 64 * 4))
        self.assertGreaterEqual(most, 500)

    def test_batches_cut_out_in_host_memory_leave_time_for_the_steps(self):
        phases = phases_of(self.trace(HOST_BATCHES))
        self.assertEqual(phases, ["building", "first steps", "steady steps"])

    def test_files_that_are_linked_and_copied_are_found_again(self):
        self.trace(LINKS)

    def test_data_sets_are_converted_into_their_cache(self):
        self.trace(CONVERTS, datasets=DATA_SETS)

    def test_boxes_that_overlap_are_left_out(self):
        lines = self.trace(BOXES)
        # A bit for each pair of boxes, in words of 64.
        self.assertIn(1000 * 16 * 8, [line[2] for line in lines if line[0] == "a"])

    def test_modules_that_a_program_writes_can_be_imported(self):
        self.trace(WRITES_MODULES)

    @unittest.skipUnless(find_spec("triton"), "PyTorch brings Triton along on Linux only")
    def test_kernels_in_triton_take_what_their_tensors_take_and_what_trying_them_clears(self):
        lines = self.trace(KERNELS)
        sizes = [line[2] for line in lines if line[0] == "a"]
        # Once for each configuration, at the first call.
        self.assertEqual(sizes.count(256 << 20), 2)
        self.assertEqual(phases_of(lines)[-1], "steady steps")

    def test_weights_that_are_set_from_host_memory_stay_parameters(self):
        self.trace(TABLES)

    def test_parameters_can_be_made_of_the_attributes_of_others(self):
        self.trace(MADE_AGAIN)

    def test_a_card_tells_its_caches(self):
        self.trace(CARD)

    def test_a_trainer_keeps_the_signature_that_options_are_made_from(self):
        self.trace(OPTIONS, pytorch_lightning=TRAINER)

    def test_epochs_that_a_trainer_ends_have_their_short_last_batch(self):
        self.trace(EPOCHS, pytorch_lightning=TRAINER)

    def test_checkpoints_of_a_trainer_are_not_written_into_memory(self):
        self.trace(SAVES, lightning_fabric=SAVER)

    def test_numbers_of_a_tensor_that_is_made_on_the_gpu_are_known(self):
        self.trace(SHAPES)

    @unittest.skipUnless(hasattr(torch.ops.aten.addmm, "dtype"), "this PyTorch has no such product")
    def test_products_of_another_type_than_their_factors(self):
        self.trace(PRODUCTS)

    def test_files_that_arrow_maps_are_found_where_they_were_written(self):
        self.trace(MAPS, pyarrow=ARROW)

    def test_tokenizers_that_are_saved_leave_no_file(self):
        self.trace(TOKENIZERS)

    def test_masks_in_host_memory_choose_what_they_mark(self):
        self.trace(MASKS)

    def test_masks_in_numbers_choose_what_they_mark(self):
        self.trace(PAIRS)

    @unittest.skipUnless(find_spec("numpy"), "scores are computed with numpy")
    def test_scores_in_host_memory_take_what_came_from_the_gpu(self):
        self.trace(SCORES, sklearn=SKLEARN)

    def test_generated_texts_that_do_not_end_are_kept_whole(self):
        self.trace(COMPLETIONS)
