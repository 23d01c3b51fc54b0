"""TorchScript, the profiler and compiled steps: programs that use them beside their model."""

import os
import tempfile
import unittest

import torch

from tracing.kinds.test_crashes import traced
from tracing.kinds.traced_program import rows_of

SAVED = """
import os
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1000, 300)

    def forward(self, x):
        return torch.relu(self.layer(x))

batch = torch.randn(4, 1000)
torch.jit.script(Net()).save("script.pt")
torch.jit.save(torch.jit.trace(Net().eval().cuda(), batch.cuda()), "traced.pt")
for name in ("script.pt", "traced.pt"):
    model = torch.jit.load(name, map_location="cuda")
    assert next(model.parameters()).is_cuda and model(batch.cuda()).is_cuda
    model = torch.jit.load(name, map_location="cpu")
    assert model(batch).device.type == "cpu"
    assert model.to("cuda")(batch.cuda()).is_cuda
frozen = torch.jit.freeze(torch.jit.trace(Net().eval().cuda(), batch.cuda()))
assert frozen(batch.cuda()).shape == (4, 300)
"""

PROFILED = """
import torch
from torch.profiler import ProfilerActivity, profile

model = torch.nn.Linear(1000, 300).cuda()
for activities in ([ProfilerActivity.CPU, ProfilerActivity.CUDA], [ProfilerActivity.CUDA]):
    with profile(activities=activities, profile_memory=True) as profiler:
        model(torch.ones(2, 1000, device="cuda")).sum().backward()
    profiler.key_averages().table(sort_by="cuda_time_total")
with torch.autograd.profiler.profile(use_cuda=True) as profiler:
    model(torch.ones(2, 1000, device="cuda"))
"""

# As Lightning compiles the steps of a module.
STEPS = """
import torch

class Net(torch.nn.Module):
    automatic_optimization = True

    def __init__(self):
        super().__init__()
        self.layer, self.logged = torch.nn.Linear(8, 8), []

    def training_step(self, batch):
        loss = self.layer(batch).sum()
        self.logged.append(loss.detach())
        return loss

compiled = torch.compile(Net().cuda())
model = compiled._orig_mod
model.training_step = compiled.dynamo_ctx(model.training_step)
for _ in range(3):
    model.training_step(torch.ones(2, 8, device="cuda")).backward()
assert len([loss.to("cpu").item() for loss in model.logged]) == 3
"""


class TorchScript(unittest.TestCase):
    def test_models_are_traced_saved_and_loaded_without_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            done = traced(folder, SAVED)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["t.jsonl", "train.py"])

    def test_a_file_of_a_real_run_is_read_and_its_weights_are_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "real.pt")
            torch.jit.script(torch.nn.Linear(1000, 300)).save(path)
            program = f"import torch\nmodel = torch.jit.load({path!r}, 'cuda')\n"
            rows = rows_of(self, program + "model(torch.ones(2, 1000, device='cuda'))\n")
        asked = [row[2] for row in rows if isinstance(row, list) and row[0] == "a"]
        self.assertIn(1000 * 300 * 4, asked)

    def test_the_profiler_does_not_ask_for_a_card(self):
        with tempfile.TemporaryDirectory() as folder:
            done = traced(folder, PROFILED)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("Failed to record", done.stderr)

    def test_compiled_steps_keep_what_they_log(self):
        rows_of(self, STEPS)


if __name__ == "__main__":
    unittest.main()
