"""Calls that programs make and that PyTorch cannot follow by itself without a GPU."""

import unittest

from tracing.kinds.traced_program import rows_of

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


if __name__ == "__main__":
    unittest.main()
