"""What older programs do with tensors: kinds of their own, a default type on the GPU, lists as places."""

import unittest

from tracing.kinds.traced_program import rows_of

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
