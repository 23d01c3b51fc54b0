"""Calls that programs make and that PyTorch cannot follow by itself without a GPU."""

import unittest

from tracing.watching import rows_of

GROUPS = """
import torch
from torch import nn
from torch.masked import masked_tensor
from torch.nn.utils.parametrizations import orthogonal

words = nn.AdaptiveLogSoftmaxWithLoss(16, 1000, [50, 200]).cuda()
rows = torch.randn(64, 16, device="cuda")
drawn = torch.randint(0, 1000, (64,), device="cuda")
words(rows, drawn).loss.backward()
# Each row is in one group.
low, high = drawn < 300, drawn >= 300
assert 0 < len(rows[low]) < 64 and len(rows[low]) + len(rows[high]) == 64

for chosen in ("matrix_exp", "cayley", "householder"):
    layer = orthogonal(nn.Linear(16, 4).cuda(), orthogonal_map=chosen)
    layer(rows).sum().backward()
reflected, scales = torch.geqrf(torch.randn(3, 6, 4, device="cuda"))
assert reflected.shape == (3, 6, 4) and scales.shape == (3, 4)
assert reflected.stride() == (24, 1, 6)
masked_tensor(rows, rows > 0).sum()
"""

SCRIPTED = """
import torch
from torch import nn

def built():
    return nn.Sequential(nn.Linear(1000, 100), nn.ReLU(), nn.Linear(100, 10)).cuda()

pictures = torch.randn(8, 1000, device="cuda")
scripted = torch.jit.script(built())
scripted.save("scripted.pt")
traced = torch.jit.trace(built().eval(), pictures)
traced.save("traced.pt")
torch.jit.save(torch.jit.freeze(torch.jit.script(built().eval())), "frozen.pt")
for path in ("scripted.pt", "traced.pt", "frozen.pt"):
    loaded = torch.jit.load(path, map_location="cuda")
    loaded(pictures).sum().backward()
    assert loaded.eval() is loaded and len(list(loaded.parameters())) == 4
doubled = torch.jit.trace(lambda x: x * 2, (pictures,))
assert doubled(pictures).shape == pictures.shape
torch.onnx.export(traced, (pictures,), "model.onnx", input_names=["pictures"])
"""

MARKED = """
import torch
import torch.nn.utils.prune as prune

# Cells of a grid that hold an object, as detectors write them: by lists of places, and one by one.
cells = torch.zeros(16, 3, 32, 32, device="cuda")
empty = torch.ones_like(cells)
boxes = torch.rand(60, 4).cuda()
picture, anchor = torch.arange(60, device="cuda") % 16, torch.arange(60, device="cuda") % 3
row, column = (boxes[:, 0] * 32).long(), (boxes[:, 1] * 32).long()
cells[picture, anchor, row, column] = 1
empty[picture, anchor, row, column] = 0
for place in range(5):
    cells[0, 0, 31, place] = 1
found = torch.randn(16, 3, 32, 32, 4, device="cuda")
assert len(found[cells > 0]) == len(found[cells == 1]) == len(found[cells.bool()]) == 65
assert len(found[empty == 1]) == cells.numel() - 60
assert len(found[(1 - cells).bool()]) == cells.numel() - 65
cells[:] = 0
# Weights that are pruned, again and again.
layer = torch.nn.Linear(200, 100).cuda()
for left in (0.5, 0.25):
    prune.l1_unstructured(layer, "weight", 0.5)
    assert len(layer.weight[layer.weight_mask == 1]) == 20_000 * left
    layer(torch.randn(8, 200, device="cuda")).sum().backward()
"""

SPARSE = """
import torch

unit = torch.eye(300, device="cuda")
graph = unit.to_sparse()
assert graph._nnz() == 300 and graph.cpu().device.type == "cpu"
features = torch.randn(300, 40, device="cuda", requires_grad=True)
torch.sparse.mm(graph, features).sum().backward()
twice = torch.sparse.mm(graph, graph)
assert twice.is_sparse and twice._nnz() == 300 and twice.to_dense().shape == (300, 300)
assert (graph @ torch.randn(300, device="cuda")).shape == (300,)
assert (torch.randn(5, 300, device="cuda") @ graph).shape == (5, 300)
assert graph.mul(torch.randn(300, 300, device="cuda"))._nnz() == 300
assert graph.index_select(0, torch.arange(30, device="cuda"))._nnz() == 30
assert unit.to_sparse_csr().values().shape == (300,)
"""
READ = """
import torch

values = torch.randn(100, device="cuda")
# Lists of tensors, and the ends of a range.
assert torch.as_tensor([values[0], values[1]]).shape == (2,)
assert torch.histc(values, 10, min=values.min().item(), max=values.max().item()).shape == (10,)
layer = torch.nn.Linear(100, 10).cuda()
assert torch.nn.parallel.data_parallel(layer, values, [0]).shape == (10,)
"""

DEFINED = """
import torch

@torch.library.custom_op("own::norms", mutates_args=())
def norms(rows: torch.Tensor) -> torch.Tensor:
    assert rows.is_cuda
    return (rows * rows).sum(1).sqrt()

@torch.library.custom_op("own::doubled", mutates_args=())
def doubled(rows: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("needs a card")

@doubled.register_fake
def _(rows):
    return torch.empty_like(rows)

rows = torch.randn(1000, 100, device="cuda")
assert norms(rows).shape == (1000,) and doubled(rows).shape == rows.shape
# Marks elsewhere do not keep `torch.func` from working.
marks = torch.zeros(100, 100, device="cuda")
marks[0, 0] = 1
host = torch.nn.Linear(3, 3)
devices = set()

def filled(row):
    devices.add(row.device.type)
    return row.clone().fill_(0).add_(row.amax())

torch.func.vmap(filled)(rows)
assert devices == {"cuda"}
"""


class Idioms(unittest.TestCase):
    def test_rows_in_groups_by_drawn_numbers_and_weights_that_stay_orthogonal(self):
        rows_of(self, GROUPS)

    def test_sparse_matrices_are_made_of_dense_ones_and_multiplied_from_both_sides(self):
        rows_of(self, SPARSE)

    def test_values_are_read_in_lists_and_as_a_range(self):
        rows_of(self, READ)

    def test_ops_that_a_program_defines_run_with_and_without_a_shape_function(self):
        rows = rows_of(self, DEFINED)
        asked = [row for row in rows if isinstance(row, list) and row[0] == "a"]
        # The squares inside of the first op, and the result of the second.
        self.assertGreaterEqual(sum(row[2] == 400_000 for row in asked), 3)

    def test_as_many_are_chosen_by_marks_as_were_written(self):
        rows_of(self, MARKED)

    def test_modules_as_torchscript_are_saved_and_loaded_with_their_weights(self):
        rows = rows_of(self, SCRIPTED)
        asked = [row for row in rows if isinstance(row, list) and row[0] == "a"]
        # Three models, each of them once more from its file, and the gradients of these.
        self.assertEqual(9, sum(row[2] == 400_000 for row in asked))


# What older programs do with tensors: kinds of their own, a default type on the GPU, lists as places.

OWN_KIND = """
import copy, torch

class Noise(torch.Tensor):
    def draw_with(self, scale):
        self.scale = scale

    def to(self, *args, **kwargs):
        moved = Noise(self)
        moved.draw_with(self.scale)
        moved.data = super().to(*args, **kwargs)
        return moved

class Named(torch.Tensor):
    @staticmethod
    def __new__(cls, values, label):
        made = super().__new__(cls, values)
        made.label = label
        return made

noise = Noise(torch.randn(100, 1000, requires_grad=False))
noise.draw_with(2.0)
assert type(noise) is Noise and not noise.is_cuda
noise = noise.to("cuda", torch.float32)
assert type(noise) is Noise and noise.is_cuda and noise.scale == 2.0
noise.normal_(0, 1)
labels = Noise(torch.zeros(8))
labels.draw_with(1.0)
labels = labels.to("cuda", torch.int64)
assert labels.is_cuda and labels.dtype == torch.int64 and labels.scale == 1.0
layer = torch.nn.Linear(1000, 1000).cuda()
layer(noise).sum().backward()
# Moved views have none of its attributes: a method of PyTorch's that calls `to` would fail.
torch.nn.functional.binary_cross_entropy_with_logits(noise[:2], noise[2:4].sigmoid())
torch.softmax(noise[:2], -1).norm()
again = copy.deepcopy(noise)
assert type(again) is Noise and again.is_cuda and again.scale == 2.0

named = Named([1.0, 2.0], "pair")
assert type(named) is Named and named.label == "pair" and named.sum().item() == 3.0
# What it was made of learns through it.
weight = torch.ones(3, requires_grad=True, device="cuda")
(Noise(weight) * 2).sum().backward()
assert weight.grad.shape == (3,)
assert Noise(2, 3).shape == (2, 3) and Noise(torch.Size([3])).shape == (3,)
assert type(torch.Tensor(noise)) is torch.Tensor
"""

DEFAULT_TYPE = """
import torch

torch.set_default_tensor_type("torch.cuda.FloatTensor")
far = torch.Tensor([1e10])
assert far.is_cuda and far.dtype == torch.float32
steps = torch.rand(8, 63)
assert torch.cat([steps, far.expand(steps[..., :1].shape)], -1).is_cuda
assert all(made.is_cuda for made in (torch.Tensor(2, 3), torch.Tensor(), torch.Tensor(torch.Size([2]))))
assert not torch.FloatTensor([1.0]).is_cuda
kept = torch.Tensor(250, 400)
torch.set_default_tensor_type(torch.cuda.HalfTensor)
assert torch.Tensor([1.0]).dtype == torch.float16
torch.set_default_tensor_type("torch.FloatTensor")
assert not torch.Tensor([1.0]).is_cuda
torch.set_default_device("cuda")
# PyTorch obeys the default device elsewhere, but not here.
assert not torch.Tensor([1.0]).is_cuda and torch.zeros(1).is_cuda
"""

LISTS = """
import torch

for device in ("cpu", "cuda"):
    layer = torch.nn.Linear(4, 12).to(device)
    marks = layer.weight.new_zeros(12, dtype=torch.bool).view(3, -1)
    marks[[True, False, True], :] = True
    marks = marks.view(-1)
    into = torch.zeros(12, 5, device="cuda")
    into[marks] = torch.ones(8, 5, device="cuda", requires_grad=True)
    into.sum().backward()

    def counted(write):
        grid = layer.weight.new_zeros(4, 3)
        write(grid)
        return len(grid[grid > 0])

    def nested(grid): grid[[1, 2], [0, 1]] = 1
    def inner(grid): grid[:, [2, 0]] = 1
    def a_range(grid): grid[range(2)] = 1
    def a_tuple(grid): grid[(3, 1), 1:] = 1
    assert list(map(counted, (nested, inner, a_range, a_tuple))) == [2, 8, 6, 4]
    assert layer.weight.new_zeros(4, 3)[[0, 2], 1:].shape == (2, 2)
"""

PUT = """
import torch

words = torch.nn.Embedding(100, 16).cuda()
image = torch.nn.Linear(8, 16).cuda()
# Which words stand for the image only the data know, but not how many.
ids = (torch.randn(4, 512, 512, device="cuda").mean(-1) * 100).long().abs() % 100
rows = words(ids)
rows[ids == 7] = image(torch.randn(24, 8, device="cuda"))
rows = rows * 1
rows[0, ids[0] == 3] = image(torch.randn(5, 8, device="cuda"))
# One row for all of them says nothing.
rows[ids == 9] = image(torch.randn(1, 8, device="cuda"))
rows.sum().backward()
assert image.weight.grad.shape == (16, 8)
"""


class OldIdioms(unittest.TestCase):
    def test_kinds_of_tensors_with_methods_of_their_own_are_made_and_moved(self):
        rows = rows_of(self, OWN_KIND)
        asked = [row for row in rows if isinstance(row, list) and row[0] == "a"]
        # It comes to the GPU once, is copied once, and the layer's result is as large.
        self.assertEqual(3, sum(row[2] == 400_000 for row in asked))

    def test_tensors_of_a_default_type_are_made_on_the_gpu(self):
        rows = rows_of(self, DEFAULT_TYPE)
        asked = [row for row in rows if isinstance(row, list) and row[0] == "a"]
        self.assertEqual(1, sum(row[2] == 400_000 for row in asked))

    def test_values_written_at_places_in_a_list_are_known(self):
        rows_of(self, LISTS)

    def test_a_mask_marks_as_many_places_as_values_are_written_to(self):
        rows_of(self, PUT)


if __name__ == "__main__":
    unittest.main()
