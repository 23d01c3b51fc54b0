"""Programs as they are: run on a pretended GPU in a process of their own."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import warm
from warm import PACKAGE

TRAINING = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).to(device)
assert next(model.parameters()).is_cuda and str(next(model.parameters()).device) == "cuda:0"
optimizer = torch.optim.Adam(model.parameters())
data = TensorDataset(torch.randn(1030, 256), torch.randint(0, 10, (1030,)))
best, sizes = float("inf"), []
for epoch in range(int(sys.argv[1])):
    model.train()
    for x, y in DataLoader(data, 100, shuffle=True, num_workers=2, pin_memory=True):
        sizes.append(len(x))
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        assert torch.isfinite(loss), "not finite"
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(x.cuda()).argmax(1) == y.cuda()).sum().item() for x, y in DataLoader(data, 500))
    print(f"loss {loss:.3f}", right / len(data))
    if loss.item() < best:
        best = loss.item()
        torch.save(model.state_dict(), "best.pt")
        open("log.txt", "w").write("written")
model.load_state_dict(torch.load("best.pt"))
print("sizes", sizes)
"""

# Of the program alone: the peak that `getrusage` knows begins with that of the process that started it.
PEAK_KIB = "int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def trace(self, text, *arguments, name="train.py"):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)
        self.files = sorted(os.listdir(self.folder))
        output = os.path.join(self.folder, "trace.jsonl")
        command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--output", output]
        done = warm.run(
            [*command, "--program", *(arguments or (name,))],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": PACKAGE, "PLIMSOLL_DEBUG": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return done, []
        with open(output, encoding="utf-8") as file:
            _, *events, self.footer = map(json.loads, file)
        os.remove(output)
        return done, events

    def test_a_training_loop_runs_through_its_phases_and_leaves_no_file(self):
        done, lines = self.trace(TRAINING, "train.py", "2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        marks = [line[1] for line in lines if line[0] == "m"]
        phases = [mark[6:] for mark in marks if mark.startswith("phase:")]
        self.assertEqual(
            phases[:5], ["building", "first steps", "steady steps", "evaluation", "saving"]
        )
        # The first batches and the last, short one, in each of two epochs.
        self.assertIn(
            "sizes [100, 100, 100, 100, 100, 100, 30, 100, 100, 100, 100, 100, 100, 30]",
            done.stderr,
        )
        self.assertEqual(done.stdout, "")
        self.assertEqual(sorted(os.listdir(self.folder)), self.files)
        weights = [line for line in lines if line[0] == "a" and line[5] == "w"]
        self.assertEqual([line[2] for line in weights], [4 * n for n in (256 * 512, 512, 5120, 10)])
        states = [line[2] for line in lines if line[0] == "a" and line[5] == "o"]
        self.assertEqual(sum(states), 2 * sum(line[2] for line in weights))
        self.assertEqual(self.footer["parameters"], 256 * 512 + 512 + 5120 + 10)

    def test_a_program_without_end_is_ended(self):
        done, _ = self.trace(
            "import torch\n"
            "w = torch.nn.Linear(64, 64).cuda()\n"
            "o = torch.optim.SGD(w.parameters(), 0.1)\n"
            "try:\n"
            "    while True:\n"
            "        w(torch.ones(8, 64, device='cuda')).sum().backward(); o.step(); o.zero_grad()\n"
            "except Exception:\n"
            "    raise SystemExit(9)\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(self.footer["end"])

    def test_a_large_model_built_in_host_memory_takes_none(self):
        done, lines = self.trace(
            "import torch\n"
            "m = torch.nn.Sequential(*[torch.nn.Linear(8192, 8192) for _ in range(40)])\n"
            "m = m.to(torch.bfloat16).cuda()\n"
            "m(torch.zeros(2, 8192, dtype=torch.bfloat16, device=0))\n"
            f"assert {PEAK_KIB} < 2 << 20\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        weights = [line[2] for line in lines if line[0] == "a" and line[5] == "w"]
        self.assertEqual(max(weights), 2 * 8192 * 8192)
        self.assertEqual(weights.count(2 * 8192 * 8192), 40)

    def test_a_module_by_name_and_memory_that_is_asked_about(self):
        done, _ = self.trace(
            "import sys, torch\n"
            "assert sys.argv[1:] == ['--fast']\n"
            "x = torch.empty(1 << 20, device='cuda')\n"
            "assert torch.cuda.memory_allocated() == 4 << 20\n"
            "del x\n"
            "assert torch.cuda.memory_allocated() == 0 < torch.cuda.max_memory_allocated()\n"
            "assert torch.cuda.memory_reserved() == torch.cuda.max_memory_reserved() == 20 << 20\n"
            "torch.cuda.empty_cache(); torch.cuda.reset_peak_memory_stats()\n"
            "assert torch.cuda.memory_reserved() == torch.cuda.max_memory_allocated() == 0\n"
            "free, total = torch.cuda.mem_get_info(); assert 0 < free <= total\n",
            *("-m", "job", "--fast"),
            name="job.py",
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_failures_name_the_line_and_what_to_do(self):
        cases = {
            "program-failed": "torch.zeros(2, device='cuda') @ torch.zeros(3, device='cuda')",
            # As an extension with kernels of its own says it.
            "program-needs-gpu": "raise RuntimeError('CUDA error: invalid device function')",
        }
        for code, text in cases.items():
            done, _ = self.trace("import torch\n\n" + text)
            self.assertEqual(done.returncode, 2, done.stderr)
            error = json.loads(done.stdout.splitlines()[-1])["error"]
            self.assertEqual((error["code"], error["where"]), (code, "train.py:3"))
            self.assertIn("workload()", error["next"])

    def test_a_program_that_gives_up_says_so(self):
        done, _ = self.trace("raise SystemExit(3)\n")
        error = json.loads(done.stdout.splitlines()[-1])["error"]
        self.assertEqual((done.returncode, error["code"]), (2, "program-ended"))
        done, _ = self.trace("print(1)\n", "missing.py")
        error = json.loads(done.stdout.splitlines()[-1])["error"]
        self.assertEqual((done.returncode, error["code"]), (2, "program-missing"))

    def test_a_missing_file_is_named_before_a_missing_torch(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "there.py"), "w", encoding="utf-8") as file:
                file.write("print(1)\n")
            codes = []
            for name in ("missing.py", "there.py"):
                # Without the folders of packages, torch among them.
                done = subprocess.run(
                    [sys.executable, "-S", "-m", "plimsoll_trace", "--program", name],
                    env={**os.environ, "PYTHONPATH": PACKAGE, "PLIMSOLL_DEBUG": ""},
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                codes.append(json.loads(done.stdout.splitlines()[-1])["error"]["code"])
        self.assertEqual(codes, ["program-missing", "torch-missing"])

    def test_a_folder_with_a_main_file_is_a_program(self):
        os.mkdir(os.path.join(self.folder, "job"))
        with open(os.path.join(self.folder, "job", "beside.py"), "w", encoding="utf-8") as file:
            file.write("size = 1 << 20\n")
        text = "import torch, beside\ntorch.zeros(beside.size, device='cuda')\n"
        done, _ = self.trace(text, "job", name="job/__main__.py")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_is_saved_takes_no_memory_and_can_be_loaded(self):
        done, _ = self.trace(
            "import io, resource, torch\n"
            "most = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "before = most()\n"
            "large = torch.zeros(1 << 29, device='cuda')\n"
            "torch.save({'large': large}, 'large.pt')\n"
            "assert most() - before < 1 << 20, most() - before\n"
            "w = torch.ones(4096, 3, device='cuda')\n"
            "kept = {'a': w, 'b': w.t(), 'real': torch.arange(9), 'epoch': 3}\n"
            "torch.save(kept, 'kept.pt')\n"
            "kept = torch.load('kept.pt')\n"
            "assert kept['a'].is_cuda and kept['b'].shape == (3, 4096) and kept['epoch'] == 3\n"
            "assert kept['real'].tolist() == list(range(9))\n"
            "written = io.BytesIO(); torch.save(w, written)\n"
            "assert written.tell() > 4 * 4096 * 3\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), self.files)

    def test_weights_are_taken_from_headers_and_saved_as_headers(self):
        done, lines = self.trace(
            "import json, os, torch\n"
            "from safetensors import safe_open\n"
            "from safetensors.torch import load_file, save_file\n"
            "size = 2 * 50_000 * 40_000\n"
            "entry = {'dtype': 'BF16', 'shape': [50_000, 40_000], 'data_offsets': [0, size]}\n"
            "text = json.dumps({'w': entry}).encode()\n"
            "with open('w.safetensors', 'wb') as file:\n"
            "    file.write(len(text).to_bytes(8, 'little') + text); file.truncate(8 + len(text) + size)\n"
            "with safe_open('w.safetensors', framework='pt', device='cpu') as file:\n"
            "    assert file.get_slice('w').get_shape() == [50_000, 40_000]\n"
            "    assert file.get_slice('w')[:10].shape == (10, 40_000)\n"
            "    weight = file.get_tensor('w')\n"
            "assert str(weight.device) == 'cpu' and torch.cuda.memory_allocated() == 0\n"
            "weight = weight.cuda()\n"
            "assert torch.cuda.memory_allocated() == size\n"
            "save_file({'again': weight}, 'again.safetensors')\n"
            "del weight\n"
            "again = load_file('again.safetensors', device='cuda:0')['again']\n"
            "assert again.shape == (50_000, 40_000) and again.dtype == torch.bfloat16 and again.is_cuda\n"
            f"assert {PEAK_KIB} < 2 << 20\n"
            "assert 'again.safetensors' in os.listdir('.') and os.stat('again.safetensors').st_size > size\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([line[2] for line in lines if line[0] == "a"], [4 * 10**9] * 2)
        self.assertEqual(sorted(os.listdir(self.folder)), self.files)

    def test_what_the_host_knows_of_graphs_and_masks_decides_sizes(self):
        done, _ = self.trace(
            "import torch\n"
            "graph = torch.arange(300).repeat_interleave(50).cuda()\n"
            "assert int(graph.max()) == 299\n"
            "mask = (torch.arange(20_000) < 512).cuda()\n"
            "x = torch.zeros(20_000, 128, device='cuda')\n"
            "assert x[mask].shape == (512, 128) and x[~mask].shape == (19_488, 128)\n"
            "assert len(mask.nonzero()) == 512\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.footer["notes"], [])

    def test_many_rows_picked_in_host_memory_take_none_and_come_to_the_gpu_as_they_are(self):
        text = """
import torch
rows, names = torch.zeros(50, 1 << 18), torch.arange(50)
places, taken = torch.arange(40).repeat(10), PEAK_KIB
for picked in (rows[places], rows.index_select(0, places)):
    assert str(picked.device) == "cpu" and picked.cuda().is_cuda
few, mask = rows[places[:3]], rows[:, 0] == 0
assert few.numpy().sum() == 0 and rows[mask].shape == rows.shape and names[places].tolist() == [*range(40)] * 10
assert PEAK_KIB - taken < 200 << 10
rows[:, 0].sort(), rows[:, 0].topk(5), rows[0].nonzero()
before = torch.get_num_threads()
torch.set_num_threads(before + 1)
assert torch.get_num_threads() == before
"""
        done, events = self.trace(text.replace("PEAK_KIB", PEAK_KIB))
        self.assertEqual(0, done.returncode, done.stderr + done.stdout)
        sizes = [event[2] for event in events if event[0] == "a"]
        self.assertEqual([400 << 20, 400 << 20], sizes)
        self.assertEqual([], self.footer["notes"])

    def test_types_of_older_programs_make_tensors_on_the_gpu(self):
        program = """
import numpy, torch
from torch.autograd import Variable
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
model = torch.nn.Linear(1024, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(6):
    images = torch.randn(256, 1024)
    real = Variable(images.type(Tensor))
    valid = Variable(Tensor(images.size(0), 1).fill_(1.0), requires_grad=False)
    noise = Variable(Tensor(numpy.random.normal(0, 1, (256, 1024))))
    labels = torch.cuda.LongTensor([1, 2, 3])
    assert isinstance(real, torch.cuda.FloatTensor) and not isinstance(labels, torch.cuda.FloatTensor)
    assert not isinstance(images, torch.cuda.FloatTensor) and labels.type() == "torch.cuda.LongTensor"
    assert noise.shape == (256, 1024) and noise.is_cuda and images.type_as(noise).is_cuda
    assert real.type(torch.DoubleTensor).device.type == "cpu" and not real.type_as(images).is_cuda
    assert Tensor(real.size()).shape == real.shape and Tensor().numel() == 0
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(real + noise), valid).backward()
    optimizer.step()
torch.set_default_tensor_type(torch.cuda.FloatTensor)
assert torch.zeros(2).is_cuda
print("through")
"""
        done, events = self.trace(program)
        self.assertIn("through", done.stderr, done.stdout)
        # Images and noise of each step, made in one allocation each.
        sizes = [line[2] for line in events if line[0] == "a"]
        self.assertGreaterEqual(sizes.count(4 * 256 * 1024), 12)

    def test_ways_to_move_models_and_to_read_values(self):
        program = """
import os, torch
from torch import nn
from torch.func import functional_call, grad, vmap
for move in (
    lambda m: m.to(device="cuda"),
    lambda m: m.to(device=torch.device("cuda"), dtype=torch.bfloat16),
    lambda m: m.to(torch.zeros(1, device="cuda")),
    lambda m: m.to(0),
    lambda m: m.cuda(device="cuda:0"),
):
    assert move(nn.Linear(8, 8)).weight.is_cuda
model = nn.Linear(64, 20).to(device="cuda")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
torch.cuda.memory._record_memory_history()
# The bar of many programs is as wide as the terminal; its input has ended.
assert os.popen("stty size", "r").read().split() == ["24", "80"]
try:
    input()
except EOFError:
    print("input has ended")
for _ in range(6):
    out = model(torch.randn(50, 4, 64).to(device="cuda")).log_softmax(2)
    texts = torch.randint(1, 20, (4, 10), device="cuda")
    loss = nn.CTCLoss()(out, texts, torch.full((4,), 50), torch.full((4,), 10))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
known = torch.tensor([3, 1, 3, 7]).cuda()
assert known.unique().tolist() == [1, 3, 7] and torch.bincount(known).shape == (8,)
assert torch.repeat_interleave(torch.ones(4, device="cuda"), known).shape == (14,)
# Drawn numbers are spread over their range; of others all may differ.
assert torch.randint(0, 9, (300000,), device="cuda").unique().shape == (9,)
assert torch.randn(300000, device="cuda").unique().shape == (300000,)
assert torch.allclose(out, out) and torch.tensor([loss, loss]).shape == (2,)
weights = dict(model.named_parameters())
single = grad(lambda w, x: functional_call(model, w, x).sum())
assert vmap(single, (None, 0))(weights, torch.randn(5, 64, device="cuda"))["bias"].shape == (5, 20)
print("through")
"""
        done, _ = self.trace(program)
        self.assertIn("through", done.stderr, done.stdout)
        self.assertIn("input has ended", done.stderr)

    def test_parameters_of_distributions_are_taken_as_valid(self):
        done, _ = self.trace(
            "import torch\n"
            "mean = torch.nn.Linear(8, 8).cuda()(torch.zeros(4, 8, device='cuda'))\n"
            "normal = torch.distributions.Normal(mean, mean.exp())\n"
            "assert normal.log_prob(normal.rsample()).shape == (4, 8)\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_module_that_moves_to_the_host_takes_gradients_and_buffers_along(self):
        done, _ = self.trace(
            "import torch\n"
            "m = torch.nn.BatchNorm1d(64).cuda()\n"
            "m(torch.zeros(8, 64, device='cuda')).sum().backward()\n"
            "m.cpu()\n"
            "assert not m.weight.grad.is_cuda and not m.running_mean.is_cuda\n"
            "m.cuda()\n"
            "assert m.weight.grad.is_cuda and m.running_mean.is_cuda\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_one_rank_of_several_holds_buckets_and_says_so(self):
        text = (
            "import os, torch, torch.distributed as dist\n"
            "from torch.nn.parallel import DistributedDataParallel\n"
            "dist.init_process_group('nccl')\n"
            "assert (dist.get_rank(), dist.get_world_size(), os.environ['LOCAL_RANK']) == (0, 4, '0')\n"
            "m = DistributedDataParallel(torch.nn.Linear(1024, 1024, bias=False).cuda(), device_ids=[0])\n"
            "o = torch.optim.SGD(m.parameters(), 0.1)\n"
            "for _ in range(3):\n"
            "    m(torch.zeros(8, 1024, device='cuda')).sum().backward(); o.step(); o.zero_grad()\n"
            "    dist.all_reduce(torch.zeros(1, device='cuda'))\n"
            "every = [None] * 4\n"
            "dist.all_gather_object(every, 'x')\n"
            "assert every == ['x'] * 4\n"
            "dist.destroy_process_group()\n"
        )
        launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", "train.py")
        done, lines = self.trace(text, *launcher)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(
            self.footer["parallel"], {"way": "ddp", "gpus": 4, "nodes": 1, "tensorParallel": 1}
        )
        # The weight, a bucket that is made twice, and a gradient in each of three steps.
        self.assertEqual([line[2] for line in lines if line[0] == "a"].count(4 << 20), 6)

    def test_activations_that_wait_on_the_host_are_not_counted(self):
        done, _ = self.trace(
            "import torch\n"
            "layers = [torch.nn.Linear(1024, 1024).cuda() for _ in range(8)]\n"
            "def run():\n"
            "    x = torch.randn(1024, 1024, device='cuda')\n"
            "    for layer in layers:\n"
            "        x = torch.tanh(layer(x))\n"
            "    x.sum().backward()\n"
            "torch.cuda.reset_peak_memory_stats()\n"
            "with torch.autograd.graph.save_on_cpu(pin_memory=True):\n"
            "    run()\n"
            "assert all(layer.weight.grad.is_cuda for layer in layers)\n"
            "print('HOST', torch.cuda.max_memory_allocated() >> 20)\n"
            "run()\n"
            "print('GPU', torch.cuda.max_memory_allocated() >> 20)\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        host, gpu = (int(done.stderr.split(name)[1].split()[0]) for name in ("HOST ", "GPU "))
        # The results of eight layers, of 4 MiB each.
        self.assertGreater(gpu - host, 20)

    def test_sentences_with_padding_are_evaluated_by_an_encoder(self):
        done, _ = self.trace(
            "import torch\n"
            "layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)\n"
            "encoder = torch.nn.TransformerEncoder(layer, 2).cuda().eval()\n"
            "ids = torch.randint(0, 3, (4, 16), device='cuda')\n"
            "with torch.no_grad():\n"
            "    x = torch.randn(4, 16, 64, device='cuda')\n"
            "    assert encoder(x, src_key_padding_mask=ids == 0).shape == (4, 16, 64)\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("nn.TransformerEncoder", " ".join(self.footer["notes"]))

    def test_a_program_that_only_starts_others_names_them(self):
        done, _ = self.trace(
            "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(1)'])\n"
        )
        error = json.loads(done.stdout.splitlines()[-1])["error"]
        self.assertEqual((done.returncode, error["code"]), (2, "program-starts-others"))
        # Also where it fails because the other one did.
        done, _ = self.trace(
            "import subprocess, sys\nsubprocess.run([sys.executable, '-c', '1 / 0'], check=True)\n"
        )
        error = json.loads(done.stdout.splitlines()[-1])["error"]
        self.assertEqual((done.returncode, error["code"]), (2, "program-starts-others"))
        done, _ = self.trace("print('no GPU')\n")
        error = json.loads(done.stdout.splitlines()[-1])["error"]
        self.assertEqual((done.returncode, error["code"]), (2, "program-without-gpu"))

    def test_a_program_that_chose_the_cpu_is_told_how_to_choose_the_gpu(self):
        # It would go on for ever, and is ended after some steps.
        loop = """
import argparse, torch
parser = argparse.ArgumentParser()
{options}
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
while True:
    model(torch.randn(2, 8)).sum().backward()
    optimizer.step()
"""
        plain = loop.format(options="parser.parse_known_args()")
        own = 'parser.add_argument("--use-device", default="cpu")\nparser.parse_args()'
        for text, arguments, next_step in (
            (plain, [], 'device = "cuda" if torch.cuda.is_available() else "cpu", and .to(device)'),
            (plain, ["train.py", "--no_cuda"], 'change or leave out the argument "--no_cuda"'),
            (loop.format(options=own), [], "chooses the GPU: --use-device cuda"),
            (loop.format(options=own), ["train.py", "--use-device", "cpu"], '"--use-device cpu"'),
            (
                plain.replace("while", "cuda = False\nwhile"),
                [],
                "see where train.py sets its device",
            ),
        ):
            with self.subTest(next_step):
                done, _ = self.trace(text, *arguments)
                error = json.loads(done.stdout.splitlines()[-1])["error"]
                self.assertEqual(error["code"], "program-without-gpu")
                self.assertIn("a GPU is simulated here", error["fact"])
                self.assertIn("the program chose the CPU", error["fact"])
                self.assertIn(next_step, error["next"])

    def test_a_loop_that_steps_without_a_backward_pass_is_no_training_on_the_cpu(self):
        # As programs draw the course of a learning rate.
        done, _ = self.trace(
            """
import torch
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
for _ in range(100):
    optimizer.step()
model = torch.nn.Linear(8, 8).cuda()
model(torch.randn(2, 8, device="cuda")).sum().backward()
"""
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_it_starts_may_use_so_many_seconds_of_a_processor(self):
        done, _ = self.trace(
            """
import os, resource, subprocess, sys, torch
asked = "import resource; print(resource.getrlimit(resource.RLIMIT_CPU)[0])"
own = resource.getrlimit(resource.RLIMIT_CPU)
given = int(subprocess.check_output([sys.executable, "-c", asked]))
assert 120 <= given < 600, given
assert resource.getrlimit(resource.RLIMIT_CPU) == own
assert os.system("exit 3") == 3 << 8
torch.nn.Linear(4, 4).cuda()(torch.ones(1, 4, device="cuda"))
"""
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_sequences_of_different_lengths_are_packed_and_count_by_their_rows(self):
        done, lines = self.trace(
            "import torch\n"
            "from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence\n"
            "net = torch.nn.LSTM(64, 256, 2, bidirectional=True, batch_first=True).cuda()\n"
            "x = torch.zeros(4, 100, 64, device='cuda')\n"
            "for lengths in ([100, 100, 100, 100], [100, 10, 10, 10]):\n"
            "    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)\n"
            "    out, (hidden, cell) = net(packed)\n"
            "    out, _ = pad_packed_sequence(out, batch_first=True)\n"
            "    assert out.shape == (4, 100, 512) and hidden.shape == cell.shape == (4, 4, 256)\n"
            "    out.sum().backward()\n"
            "gru = torch.nn.GRU(64, 32).cuda()\n"
            "gru(pack_padded_sequence(x, [9, 8, 7, 6], batch_first=True))[0].data.sum().backward()\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # Five values a unit and layer for backward, one between two layers; 400 rows, then 130.
        kept = [11 * rows * 2 * 256 * 4 + 256 for rows in (400, 130)]
        sizes = [line[2] for line in lines if line[0] == "a"]
        self.assertEqual([size for size in sizes if size in kept], kept)

    def test_inference_mode_takes_the_ways_of_cuda_and_leaves_values_to_read(self):
        done, lines = self.trace(
            "import torch\n"
            "with torch.inference_mode():\n"
            "    layer = torch.nn.Linear(8, 8).cuda()\n"
            "    out = layer(torch.zeros(2, 8, device='cuda')).argmax(1)\n"
            "    q = torch.zeros(2, 3, 1024, 64, device='cuda', dtype=torch.float16)\n"
            "    torch.nn.functional.scaled_dot_product_attention(q, q, q)\n"
            "    torch.nn.functional.dropout(q, 0.1, False)\n"
            "    torch.nn.LSTM(64, 128).cuda()(torch.zeros(9, 2, 64, device='cuda'))\n"
            "largest = layer.bias.tolist().index(max(layer.bias.tolist()))\n"
            "assert out.tolist() == [largest, largest], out.tolist()\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # Attention in one kernel, so that no scores of 2 x 3 x 1024 x 1024 are made; no copy of what
        # is not dropped; the recurrent layer in one op.
        ops = [line[2] for line in lines if line[0] == "s"]
        self.assertIn("aten._scaled_dot_product_cudnn_attention.default", ops)
        self.assertIn("aten._cudnn_rnn.default", ops)
        self.assertNotIn("aten.bmm.default", ops)
        halves = [line[2] for line in lines if line[0] == "a" and line[2] == 2 * 2 * 3 * 1024 * 64]
        self.assertEqual(len(halves), 2)

    def test_weights_that_a_gpu_wrote_are_loaded_where_the_program_wants_them(self):
        import torch

        tag = torch.serialization.location_tag
        torch.serialization.location_tag = lambda storage: "cuda:0"
        try:
            weights = {"weight": torch.zeros(2048, 3000), "bias": torch.ones(2048)}
            torch.save(
                {"model": weights, "epoch": 3}, os.path.join(self.folder, "pytorch_model.bin")
            )
        finally:
            torch.serialization.location_tag = tag
        done, lines = self.trace(
            "import torch\n"
            "kept = torch.load('pytorch_model.bin')\n"
            "assert kept['epoch'] == 3 and kept['model']['weight'].is_cuda\n"
            "host = torch.load('pytorch_model.bin', map_location='cpu')['model']\n"
            "assert not host['weight'].is_cuda and host['bias'].sum() == 2048\n"
            "layer = torch.nn.Linear(3000, 2048).cuda()\n"
            "layer.load_state_dict(host)\n"
            "layer(torch.zeros(1, 3000).cuda())\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        sizes = [line[2] for line in lines if line[0] == "a"]
        # What was loaded to the GPU, and the layer's own.
        self.assertEqual(sizes.count(4 * 2048 * 3000), 2)

    def test_compiled_models_keep_what_fused_kernels_keep(self):
        text = (
            "import sys, torch\n"
            "from torch import nn\n"
            "m = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Tanh(), nn.Sigmoid(), nn.Linear(1024, 8)).cuda()\n"
            "run = torch.compile(m) if sys.argv[1] == 'compiled' else m\n"
            "for _ in range(2):\n"
            "    run(torch.zeros(4096, 256).cuda()).sum().backward()\n"
            "assert m[0].weight.grad.shape == (1024, 256)\n"
        )
        kept = {}
        for form in ("plain", "compiled"):
            done, lines = self.trace(text, "train.py", form)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            kept[form] = sum(line[0] == "a" and line[2] == 4096 * 1024 * 4 for line in lines)
        self.assertTrue(self.footer["fused"], done.stderr)
        self.assertFalse(self.footer["compiled"])
        self.assertIn("torch.compile was followed", self.footer["notes"][0])
        # Three activations and their gradients become what goes in and what comes out.
        self.assertLess(kept["compiled"], kept["plain"])

    def test_a_compiled_model_is_followed_in_inference_mode(self):
        done, lines = self.trace(
            "import torch\n"
            "from torch import nn\n"
            "m = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Tanh(), nn.Linear(1024, 8)).cuda().eval()\n"
            "run = torch.compile(m)\n"
            "with torch.inference_mode():\n"
            "    for rows in (4096, 4096, 2048):\n"
            "        assert run(torch.zeros(rows, 256).cuda()).is_inference()\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(self.footer["fused"], done.stderr)
        self.assertFalse(self.footer["compiled"])
        # The fused kernel writes into what the product before it made; its second form is tried on copies of that.
        names = {line[1]: line[2] for line in lines if line[0] == "s"}
        wide = [names[line[3]] for line in lines if line[0] == "a" and line[2] == 4096 * 1024 * 4]
        self.assertEqual([name.startswith("triton") for name in wide], [False, True, True, False])

    def test_a_model_that_asks_whether_it_is_compiled_is_followed(self):
        done, _ = self.trace(
            "import torch\n"
            "class Model(torch.nn.Linear):\n"
            "    def forward(self, x):\n"
            "        # As those of transformers do with their masks.\n"
            "        if not torch.compiler.is_compiling() and x.max() > 100:\n"
            "            x = x / 2\n"
            "        return super().forward(x)\n"
            "run = torch.compile(Model(64, 64).cuda())\n"
            "for _ in range(3):\n"
            "    run(torch.ones(8, 64, device='cuda')).sum().backward()\n"
            "assert not torch.compiler.is_compiling()\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertFalse(self.footer["compiled"])
        self.assertTrue(self.footer["fused"])
        self.assertIn("torch.compile was followed", self.footer["notes"][0])

    def test_a_compiled_function_that_values_decide_is_not_taken_as_eager_in_silence(self):
        done, _ = self.trace(
            "import torch\n"
            "@torch.compile\n"
            "def f(x):\n"
            "    return x * 2 if x.sum().item() > 0 else x\n"
            "f(torch.zeros(1, 8).cuda())\n"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(self.footer["compiled"])
        self.assertFalse(self.footer["fused"])
        self.assertIn("torch.compile was left out", self.footer["notes"][0])


if __name__ == "__main__":
    unittest.main()


# Runs a trace, and prints for each row of the table of replacements what it says and what its function changes.
REPLACED = """
import json, sys, types
from plimsoll_trace import __main__ as command
from plimsoll_trace.programs import run

waits = []
for module in list(sys.modules.values()):
    for name in ("when_imported", "before_import"):
        if module.__name__.startswith("plimsoll_trace.programs.") and hasattr(module, name):
            hook = getattr(module, name)
            setattr(module, name, lambda m, *rest, hook=hook: (waits.append(m), hook(m, *rest))[1])

def owner(one):
    if isinstance(one, types.ModuleType):
        return one.__name__
    return f"{one.__module__}.{one.__qualname__}" if isinstance(one, type) else type(one).__module__

def places(names):
    return sorted({".".join(n.split(".")[: 2 if n.split(".")[0] == "torch" else 1]) for n in names})

def put(parts, table):
    for row in table:
        if row.only_without_view and parts.overlay.by_kernel:
            continue
        waits.clear()
        before = len(parts.patches._undo)
        row.put(parts)
        # Modules that hold a function under a name of their own are found when it is replaced.
        now = [owner(one) for one, *_ in parts.patches._undo[before:] if not isinstance(one, dict)]
        said = [sorted(row.now), sorted(row.later)]
        print(json.dumps([row.why, said, [places(now), places(waits)]]), file=sys.stderr)

run._put = put
sys.exit(command.main(sys.argv[1:]))
"""


class Replacements(unittest.TestCase):
    def test_each_row_of_the_table_says_what_its_function_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
                file.write("import numpy, torch\ntorch.zeros(3, device='cuda')\n")
            done = subprocess.run(
                [
                    *(sys.executable, "-W", "ignore", "-c", REPLACED, "--output", "t.jsonl"),
                    *("--protection", "copies", "--program", "train.py"),
                ],
                env={**os.environ, "PYTHONPATH": PACKAGE, "PLIMSOLL_DEBUG": ""},
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("[")]
        self.assertGreater(len(rows), 25)
        for why, said, found in rows:
            with self.subTest(why):
                self.assertEqual(said, found)
