"""Outputs of a whole evaluation as arrays of numpy: they take no memory of their size."""

import platform
import unittest

from tracing.kinds.traced_program import rows_of

# The logits would take 8 GB of host memory as float32.
PROGRAM = """
import numpy, torch
from torch.nn import functional as F

def held():
    return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0])

logits = torch.empty(64, 640, 50304, device="cuda", dtype=torch.float16).cpu()
labels = torch.zeros(64, 640, dtype=torch.int64)
before = held()
array = logits.numpy()
assert array.shape == (64, 640, 50304) and array.dtype == numpy.float16
assert array[3].std() > 0 and numpy.isfinite(array[3]).all()
array[:1][array[:1] < 0.5] = 1
again = torch.from_numpy(array[:32])
assert again.shape == (32, 640, 50304) and again.dtype == torch.float16
assert again.device == torch.device("cpu") and not again.is_cuda
losses = [F.cross_entropy(row[:-1].float(), label[1:]) for row, label in zip(again, labels)]
assert torch.stack(losses).mean().item() > 0
single = torch.tensor(array, dtype=torch.float32)
assert single.dtype == torch.float32 and single.device.type == "cpu"
on_gpu = torch.as_tensor(array, device="cuda")
assert on_gpu.is_cuda and on_gpu.dtype == torch.float16
# What a program makes itself has its own values.
own = numpy.arange(3 << 20, dtype=numpy.float32).reshape(3, -1)
assert torch.from_numpy(own)[2, -1].item() == (3 << 20) - 1
assert torch.tensor(own)[2, -1].item() == (3 << 20) - 1
small = torch.rand(3, 4, device="cuda").cpu().numpy()
assert torch.from_numpy(small).shape == (3, 4)
assert held() - before < 1 << 20, held() - before
"""


# As many small arrays are made and freed before the large one is taken.
FREED_BEFORE = """
import torch

def held():
    return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0]) >> 10

logits = torch.empty(64, 640, 1024, device="cuda").cpu()
small = [torch.ones(1 << 20) for _ in range(40)]
most = held()
del small[:-1]
logits.numpy()
assert most - held() > 100, (most, held())
"""


class LargeArrays(unittest.TestCase):
    def test_arrays_of_outputs_repeat_a_few_values_and_tensors_of_them_have_none(self):
        rows = rows_of(self, PROGRAM)
        sizes = [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]
        whole = 64 * 640 * 50304 * 2
        self.assertEqual(sizes.count(whole), 2, sizes)

    @unittest.skipUnless(platform.libc_ver()[0] == "glibc", "only glibc's allocator is set")
    def test_what_was_freed_before_goes_back_to_the_system(self):
        rows_of(self, FREED_BEFORE)


if __name__ == "__main__":
    unittest.main()
