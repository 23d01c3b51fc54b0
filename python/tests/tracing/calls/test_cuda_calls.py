"""What a program may ask of `torch.cuda`, `torch.accelerator` and CUDA's own libraries, beside computing."""

import unittest

from tracing.kinds.traced_program import rows_of

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


if __name__ == "__main__":
    unittest.main()
