"""Models that a program converts or exports, and tensors that it shares with other libraries."""

import unittest
from importlib.util import find_spec

from tracing.kinds.traced_program import rows_of

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


if __name__ == "__main__":
    unittest.main()
