"""A process forked from one that has torch loaded is as one that Python started."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import warm

from tracing import PACKAGE

SELF = """
import os, signal, sys, warnings
print(sys.argv, sys.orig_argv, sys.path, sys.warnoptions, os.getcwd())
print(__name__, __spec__, sorted(globals()), globals().get("__file__"), globals().get("__cached__"))
print(sorted(os.environ.items()), sorted(os.listdir("/proc/self/fd")), os.getpgid(0) == os.getpid())
print([signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)])
print(sys.stdin, [(one.name, one.encoding, one.errors, one.line_buffering) for one in (sys.stdout, sys.stderr)])
print(sys.stdin.read(), sys.dont_write_bytecode)
"""
ENDS = (
    "1 / 0",
    "print(1",
    "raise KeyboardInterrupt",
    "import sys; sys.exit()",
    "import sys; sys.exit(True)",
    "import sys; sys.exit('no disk')",
    "import sys; sys.exit(300)",
    "import os; os.abort()",
    "import os; print('lost', end=''); os._exit(3)",
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "import atexit, threading, time\natexit.register(print, 'last')\n"
    "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\nprint('first')",
    "class A:\n def __del__(self): print('gone')\none, two = A(), A()\ntwo.two = two",
    "import os, sys\nif os.fork() == 0: sys.exit(print('fork'))\nos.wait()",
    "import multiprocessing as m\nwith m.get_context('fork').Pool(1) as p: print(p.map(abs, [-1]))",
)
# Programs that go different ways through the tracer.
TRACED = {
    "a loop": """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(50):
    loss = model(torch.randn(32, 64, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
""",
    "images with autocast": """
import torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(64, 3, 32, 32), torch.randint(10, (64,)))
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 32, 3), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)
).cuda()
scaler, optimizer = torch.amp.GradScaler(), None
for epoch in range(3):
    for images, labels in DataLoader(data, 16, shuffle=True, num_workers=2):
        with torch.autocast("cuda", torch.float16):
            loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
""",
    "a compiled encoder": """
import torch
layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
model = torch.compile(torch.nn.TransformerEncoder(layer, 2).cuda())
optimizer = torch.optim.Adam(model.parameters())
for step in range(5):
    model(torch.randn(8, 16, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "texts of transformers": """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=500)).cuda().eval()
with torch.no_grad():
    print(model.generate(torch.ones(2, 5, dtype=torch.long, device="cuda"), max_new_tokens=12, do_sample=False).shape)
""",
}


class Forked(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.write("own.py", SELF)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def same(self, *words, **options):
        options = {"cwd": self.folder, "capture_output": True, "text": True, **options}
        command = [sys.executable, *words]
        before = warm.Popen.processor_seconds
        forked = warm.run(command, **options)
        self.assertGreater(warm.Popen.processor_seconds, before, "It was not forked.")
        real = subprocess.run(command, check=False, **options)
        self.assertEqual(vars(forked), vars(real))

    def test_it_finds_itself_as_every_program_does(self):
        environment = {**os.environ, "PYTHONPATH": PACKAGE, "PLIMSOLL_DEBUG": "1"}
        for words in (
            ["-c", SELF],
            ["-W", "ignore", "-c", SELF, "a", "-b"],
            ["own.py", "a"],
            ["-u", os.path.join(self.folder, "own.py"), "-c", "a"],
            ["-m", "this"],
        ):
            for env in (None, environment, {**environment, "PYTHONDONTWRITEBYTECODE": "1"}):
                with self.subTest(words=words, env=env is environment):
                    self.same(*words, env=env, input="käse\n")

    def test_it_ends_as_every_program_does(self):
        for text in ENDS:
            with self.subTest(text):
                self.write("ends.py", text)
                self.same("ends.py")
                self.same("-c", text)

    def test_its_files_are_those_it_was_given(self):
        with open(os.path.join(self.folder, "own.txt"), "w+b") as file:
            text = "import sys; print(1, flush=True); print(2, file=sys.stderr); print(input())"
            done = warm.run(
                [sys.executable, "-c", text], input=b"3", stdout=file, stderr=subprocess.STDOUT
            )
            file.seek(0)
            self.assertEqual((done.returncode, file.read()), (0, b"1\n2\n3\n"))

    def test_it_can_be_waited_for_signalled_and_killed(self):
        text = "import time; print(1, flush=True); time.sleep(600)"
        command = [sys.executable, "-c", text]
        with self.assertRaises(subprocess.TimeoutExpired):
            warm.run(command, capture_output=True, timeout=0.2)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            with warm.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
                process.stdout.readline()
                self.assertIsNone(process.poll())
                os.kill(process.pid, number)
                self.assertEqual((process.wait(), process.poll()), (-number, -number))

    def test_each_draws_numbers_of_its_own(self):
        text = "import random, numpy, torch; print(random.random(), numpy.random.rand(), torch.rand(1))"
        drawn = [
            warm.run([sys.executable, "-c", text], capture_output=True, check=True).stdout.split()
            for _ in range(2)
        ]
        for first, second in zip(*drawn):
            self.assertNotEqual(first, second)

    def test_torch_is_loaded_and_nothing_of_ours(self):
        text = "import sys; print('torch' in sys.modules, [n for n in sys.modules if 'plimsoll' in n or n == 'warm'])"
        done = warm.run([sys.executable, "-c", text], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("True []\n", ""))

    def test_what_a_fork_cannot_give_is_started_by_python(self):
        text = "import sys; print('torch' in sys.modules)"
        self.write("sitecustomize.py", "")
        self.write("plimsoll_trace/__init__.py", "")
        self.write("plimsoll_trace/__main__.py", text)
        self.write("other/plimsoll_trace/__init__.py", "")
        self.write("other/plimsoll_trace/__main__.py", text)
        for words, variables in (
            (["-S", "-c", text], {}),
            (["-c", text], {"MALLOC_MMAP_THRESHOLD_": "65536"}),
            (["-c", text], {"PYTHONPATH": self.folder}),
            # Another package of this name.
            (["-m", "plimsoll_trace"], {"PYTHONPATH": self.folder}),
            (["-m", "plimsoll_trace"], {"PYTHONPATH": os.path.join(self.folder, "other")}),
        ):
            with self.subTest(words=words, variables=variables):
                done = warm.run(
                    [sys.executable, *words],
                    env={**os.environ, **variables},
                    capture_output=True,
                    text=True,
                )
                self.assertEqual((done.stdout, done.stderr), ("False\n", ""))


class Traces(unittest.TestCase):
    def test_the_lines_of_a_trace_are_those_of_a_process_of_its_own(self):
        for name, program in TRACED.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
                    file.write(program)
                lines = [self.traced(start, folder) for start in (warm.run, subprocess.run)]
                self.assertGreater(len(lines[0]), 20)
                self.assertEqual(*lines)

    def traced(self, start, folder):
        output = os.path.join(folder, "trace.jsonl")
        command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--output", output]
        done = start(
            [*command, "--program", "train.py"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": PACKAGE},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(output, encoding="utf-8") as file:
            *lines, footer = map(json.loads, file)
        del footer["seconds"]
        return [*lines, footer]


if __name__ == "__main__":
    unittest.main()
