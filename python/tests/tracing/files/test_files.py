"""Files of a traced program and of processes that it starts: for the program they change, in truth they stay."""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import threading
import unittest
from importlib.util import find_spec
from unittest import mock

from tracing.watching import TracedFolder
from warm import PACKAGE

from plimsoll.failure import Failure
from plimsoll_trace.options import COPIES
from plimsoll_trace.programs import weights
from plimsoll_trace.programs.children import WRITE_FOR_REAL
from plimsoll_trace.programs.files import by_number, overlay
from plimsoll_trace.programs.places import Places
from plimsoll_trace.standins.patches import Patches

TRACKER = """
import os, subprocess

def init(project, mode=None):
    if (mode or os.environ["WANDB_MODE"]) != "disabled":
        subprocess.run(["mkdir", "wandb"], check=True)
"""

TRACKED = """
import torch, wandb

wandb.init("digits")
wandb.init(project="digits", mode="offline")
torch.zeros(1 << 20, device="cuda")
"""

AWAY = """
import os, shutil, torch

# As people clear what the last run left.
assert os.listdir("out") == ["old"] and os.path.isfile("out/old/model.pt")
shutil.rmtree("out")
assert not os.path.exists("out") and "out" not in os.listdir()
try:
    open("out/old/model.pt")
except FileNotFoundError:
    pass
else:
    raise AssertionError("removed")
os.makedirs("out/new")
assert os.listdir("out") == ["new"] and not os.path.exists("out/old")
open("out/new/log.txt", "w").write("1")
shutil.rmtree("out/new")
assert os.listdir("out") == []
os.rmdir("out")
for path in ("out", "no such folder"):
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        shutil.rmtree(path, ignore_errors=True)
    else:
        raise AssertionError(path)

for path in ("kept", "no such file"):
    try:
        os.remove(path)
    except OSError:
        pass
    else:
        raise AssertionError(path)
os.remove("notes.txt")
os.unlink("nowhere")
assert not os.path.lexists("nowhere")
assert not os.path.exists("notes.txt")
open("notes.txt", "a").write("new")
assert open("notes.txt").read() == "new"
os.rename("kept", "moved")
assert not os.path.exists("kept") and open("moved/sub/a.txt").read() == "a"
os.replace("moved/sub/a.txt", "moved/b.txt")
assert sorted(os.listdir("moved")) == ["b.txt", "sub"] and os.listdir("moved/sub") == []
try:
    os.rmdir("moved")
except OSError:
    pass
else:
    raise AssertionError("not empty")
torch.nn.Linear(4, 4).cuda()(torch.ones(1, 4, device="cuda"))
"""

WRITTEN = """
import os, runpy, shutil, sys, tempfile, torch

with open("generated.py", "w") as file:
    file.write("SIZE = 4")
import generated
copied = os.path.join(tempfile.mkdtemp(), "copied")
shutil.copytree("package", copied)
sys.path.insert(0, copied)
from parts import layers
assert layers.WIDTH == 8
ended = runpy.run_path(os.path.join(copied, "run.py"), run_name="__main__")
assert ended["name"] == "__main__"
torch.nn.Linear(generated.SIZE, layers.WIDTH).cuda()(torch.ones(1, 4, device="cuda"))
"""

TEMPORARY = """
import subprocess, sys, tempfile, torch

with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
    file.write("read by another process")
read = [sys.executable, "-S", "-c", "import sys; print(open(sys.argv[1]).read())", file.name]
assert subprocess.run(read, capture_output=True, text=True).stdout == "read by another process\\n"
torch.zeros(1 << 20, device="cuda")
"""

# Each waits for the other through named pipes, which the trace leaves as they are.
FIRST = """
import os, torch
os.makedirs("out/first")
open("out/first/model.pt", "w").write("1")
open("second may begin", "w").write("1")
assert open("first may end").read() == "1"
assert os.listdir("out") == ["first"] and os.listdir("out/first") == ["model.pt"]
torch.nn.Linear(4, 4).cuda()(torch.ones(1, 4, device="cuda"))
"""
SECOND = """
import os, torch
assert open("second may begin").read() == "1"
assert not os.path.exists("out") and "out" not in os.listdir()
os.makedirs("out/second")
assert os.listdir("out") == ["second"] and [e.name for e in os.scandir("out")] == ["second"]
open("first may end", "w").write("1")
assert open("first has ended").read() == "1"
assert os.listdir("out") == ["second"] and os.listdir("out/second") == []
open("out/second/model.pt", "w").write("2")
os.makedirs("out/second/deeper")
assert sorted(os.listdir("out/second")) == ["deeper", "model.pt"]
torch.nn.Linear(4, 4).cuda()(torch.ones(1, 4, device="cuda"))
"""

SAVED = """
import torch, transformers

config = transformers.GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=1, n_head=2)
transformers.GPT2LMHeadModel(config).bfloat16().save_pretrained("base")
# As trl does: the class by the name in the folder.
read = transformers.AutoConfig.from_pretrained("base")
model = getattr(transformers, read.architectures[0]).from_pretrained("base").cuda()
assert read.dtype == torch.bfloat16 and model.dtype == torch.bfloat16, read
transformers.GenerationConfig.from_pretrained("base")
model(torch.ones(2, 8, dtype=torch.long, device="cuda")).logits.sum().backward()
"""

HELD = """
import bz2, lzma, os, tarfile, torch
import numpy as np

os.makedirs("data")
with open("data/pairs.txt", "w") as file:
    file.write("1 2\\n3 4\\n")
# Libraries that PyTorch loads keep `open` under names of their own.
assert np.loadtxt("data/pairs.txt").sum() == np.genfromtxt("data/pairs.txt").sum() == 10
for module in (bz2, lzma):
    with open("data/packed", "wb") as file:
        file.write(module.compress(b"text"))
    assert module.open("data/packed").read() == b"text"
with tarfile.open("data/all.tar", "w") as file:
    file.add("data/pairs.txt")
with tarfile.open("data/all.tar") as file:
    file.extractall("unpacked", filter="data")
assert open("unpacked/data/pairs.txt").read() == "1 2\\n3 4\\n"
torch.zeros(1 << 20, device="cuda")
"""

READER = """
import json, os, torch, net, plugins.extra
from pathlib import Path

json.load(open("settings.json"))
Path("data/rows.bin").read_bytes()
os.listdir("data")
os.path.exists("last.pt")
# What it makes and writes is its own, whatever lies there.
os.makedirs("out/run", exist_ok=True)
Path("made").mkdir(exist_ok=True)
open("out/run/log.txt", "w").write("1")
assert open("out/run/log.txt").read() == "1" and os.path.exists("out/run/log.txt")
if os.fork() == 0:
    open("data/other.bin").read()
    os._exit(0)
assert os.wait()[1] == 0
net.Net(4, 4).cuda()(torch.ones(1, 4, device="cuda"))
"""
READ = {
    "read": [
        "data/other.bin",
        "data/rows.bin",
        "net.py",
        "plugins/__init__.py",
        "plugins/extra.py",
        "settings.json",
        "train.py",
    ],
    "looked": ["last.pt"],
    "listed": ["data"],
    "modules": ["."],
}
STARTER = """
import subprocess, torch
subprocess.run(["true"])
torch.zeros(1 << 20, device="cuda")
"""


class Files(TracedFolder):
    def test_what_a_program_removes_or_moves_is_gone_for_the_program_alone(self):
        files = {"out/old/model.pt": "m", "notes.txt": "n", "kept/sub/a.txt": "a", "train.py": AWAY}
        for path, text in files.items():
            self.put(path, text)
        os.symlink("no such file", os.path.join(self.folder, "nowhere"))
        self.leaves_all_as_it_is("train.py")

    def test_modules_that_a_program_writes_or_copies_can_be_imported(self):
        self.put("package/parts/layers.py", "WIDTH = 8")
        self.put("package/run.py", "name = __name__")
        self.put("train.py", WRITTEN)
        self.leaves_all_as_it_is("train.py")

    @unittest.skipUnless(find_spec("numpy"), "needs numpy")
    def test_what_a_program_writes_is_read_by_libraries_that_were_loaded_before(self):
        self.put("train.py", HELD)
        self.leaves_all_as_it_is("train.py")

    @unittest.skipUnless(find_spec("transformers"), "needs transformers")
    def test_a_saved_model_says_its_class_and_how_it_generates(self):
        self.put("train.py", SAVED)
        self.leaves_all_as_it_is("train.py")

    def test_temporary_files_lie_where_other_processes_find_them(self):
        self.put("train.py", TEMPORARY)
        with tempfile.TemporaryDirectory() as scratch:
            self.ends_well(self.start("train.py", scratch))

    def test_a_tracker_is_off_whatever_the_program_says(self):
        # As wandb: what the call says comes before the variable, and a process of its own writes.
        self.put("wandb.py", TRACKER)
        self.put("train.py", TRACKED)
        self.leaves_all_as_it_is("train.py")

    def test_two_traces_at_once_in_one_folder_do_not_see_each_other(self):
        try:
            os.setxattr(self.folder, "user.plimsoll.test", b"")
        except (AttributeError, OSError):
            self.skipTest("this file system keeps no marks on folders")
        self.put("first.py", FIRST)
        self.put("second.py", SECOND)
        for name in ("second may begin", "first may end", "first has ended"):
            os.mkfifo(os.path.join(self.folder, name))
        before = self.lying()
        first, second = self.start("first.py"), self.start("second.py")
        self.addCleanup(first.kill)
        self.addCleanup(second.kill)
        # One that fails would leave the other waiting.
        threading.Thread(target=lambda: second.wait() and first.kill(), daemon=True).start()
        self.ends_well(first)
        with open(os.path.join(self.folder, "first has ended"), "w", encoding="utf-8") as file:
            file.write("1")
        self.ends_well(second)
        self.assertEqual(self.lying(), before)


class Dependencies(TracedFolder):
    def put_reader(self):
        self.put("train.py", READER)
        self.put("net.py", "from torch.nn import Linear as Net")
        self.put("plugins/__init__.py", "")
        self.put("plugins/extra.py", "")
        self.put("settings.json", "{}")
        self.put("data/rows.bin", "1")
        self.put("data/other.bin", "2")

    def found(self, protection=None):
        with tempfile.TemporaryDirectory() as scratch:
            output = os.path.join(scratch, "trace.jsonl")
            self.ends_well(self.start("train.py", scratch, protection, output))
            with open(output, encoding="utf-8") as file:
                return json.loads(file.readlines()[-1])["files"]

    def state(self, files, before=None):
        asked = json.dumps({"files": files, "before": before})
        command = [sys.executable, "-m", "plimsoll_trace", "--state"]
        environment = {**os.environ, "PYTHONPATH": PACKAGE}
        ended = subprocess.run(
            command, input=asked, env=environment, capture_output=True, text=True, check=True
        )
        return json.loads(ended.stdout)["state"]

    def absolute(self, files):
        return {
            kind: [os.path.abspath(os.path.join(self.folder, path)) for path in paths]
            for kind, paths in files.items()
        }

    def test_are_what_a_program_and_its_forks_read_listed_and_looked_for(self):
        self.put_reader()
        for protection in (None, COPIES):
            with self.subTest(protection=protection):
                found = self.found(protection)
                inside = os.path.join(self.folder, "")
                shown = {
                    kind: [
                        os.path.relpath(path, self.folder)
                        for path in paths
                        if os.path.join(path, "").startswith(inside)
                    ]
                    for kind, paths in found.items()
                }
                self.assertEqual(shown, READ)
                all_paths = [path for paths in found.values() for path in paths]
                self.assertEqual([path for path in all_paths if "site-packages" in path], [])

    def test_are_unknown_where_a_program_starts_another(self):
        self.put("train.py", STARTER)
        self.assertIsNone(self.found())

    def test_change_with_what_lies_there_and_with_nothing_else(self):
        self.put_reader()
        files = self.absolute(READ)
        before = self.state(files)

        def differs(path, text):
            self.put(path, text)
            after = self.state(files)
            os.remove(os.path.join(self.folder, path))
            return after != before

        # Saved as it was, and files that no part of the program saw.
        self.put("net.py", "from torch.nn import Linear as Net")
        self.assertFalse(differs("out/run/log.txt", "2"))
        self.assertFalse(differs("notes.md", "2"))
        self.assertEqual(self.state(files), before)
        # One that it looked for, one in a folder that it listed, and a module that may hide another.
        for path in ("last.pt", "data/new.bin", "torch.py"):
            self.assertTrue(differs(path, "1"), path)
        self.assertEqual(self.state(files), before)
        for path in ("net.py", "settings.json", "data/rows.bin"):
            self.put(path, "[]")
            after = self.state(files)
            self.assertNotEqual(after, before, path)
            before = after

    def test_are_not_told_where_one_changed_since(self):
        self.put_reader()
        files = self.absolute(READ)
        changed = os.stat(os.path.join(self.folder, "net.py")).st_ctime
        self.assertIsNone(self.state(files, changed - 3600))
        self.assertIsNotNone(self.state(files, changed + 3600))


# Files of Python's packages: nothing is looked up for them until a program changes one; of a program, by number.

PACKAGES = sysconfig.get_paths()["purelib"]


class InstalledFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.overlay = overlay.Overlay(folder.name)

    def looked_up(self):
        patched = mock.patch.object(overlay, "is_of_traces", return_value=False)
        self.addCleanup(patched.stop)
        return patched.start()

    def test_no_marks_of_other_traces_are_read_there(self):
        marks = self.looked_up()
        for name in ("torch/nn/modules/linear.py", "torch", "not there"):
            path = os.path.join(PACKAGES, name)
            self.assertIs(self.overlay.readable(path), path)
        names = {entry.name for entry in self.overlay.listed(os.path.join(PACKAGES, "torch"))}
        self.assertIn("nn", names)
        marks.assert_not_called()
        self.overlay.readable(os.path.join(tempfile.gettempdir(), "out"))
        marks.assert_called_once()

    def test_what_a_program_writes_there_is_found_and_what_it_removes_is_not(self):
        cache, package = os.path.join(PACKAGES, "cache.txt"), os.path.join(PACKAGES, "torch")
        with open(self.overlay.writable(cache), "w", encoding="utf-8") as file:
            file.write("written")
        self.assertTrue(self.overlay.exists(cache))
        self.assertIn("cache.txt", [entry.name for entry in self.overlay.listed(PACKAGES)])
        self.overlay.remove(package)
        self.assertFalse(self.overlay.exists(os.path.join(package, "nn")))
        self.assertNotIn("torch", [entry.name for entry in self.overlay.listed(PACKAGES)])

    def test_a_folder_around_them_may_be_removed(self):
        self.overlay.remove(os.path.dirname(PACKAGES))
        self.assertFalse(self.overlay.exists(os.path.join(PACKAGES, "torch")))


class ByNumber(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.mine, self.none = (
            os.path.join(folder.name, name) for name in ("mine.txt", "none.txt")
        )
        with open(self.mine, "w", encoding="ascii") as file:
            file.write("mine")
        # Beside the files of the program, as a trace has it.
        traces = tempfile.TemporaryDirectory()
        self.addCleanup(traces.cleanup)
        self.overlay, self.patches = overlay.Overlay(traces.name), Patches()

    def opened(self, path, flags):
        """Opens as a traced program does, and writes `!` if it can: the text of the file then, or the error's name."""
        by_number._numbers(self.patches, self.overlay)
        try:
            number = os.open(path, flags)
        except OSError as error:
            self.assertEqual(error.filename, path)
            return type(error).__name__
        finally:
            self.patches.undo()
        if flags & (os.O_WRONLY | os.O_RDWR):
            os.write(number, b"!")
        os.close(number)
        with open(self.overlay.readable(path), encoding="ascii") as file:
            return file.read()

    def test_each_way_to_open_leaves_the_programs_own_file_as_it_is(self):
        make = os.O_WRONLY | os.O_CREAT
        for flags, mine, none in (
            (os.O_RDONLY, "mine", "FileNotFoundError"),
            (os.O_WRONLY, "!ine", "FileNotFoundError"),
            (os.O_RDWR, "!ine", "FileNotFoundError"),
            (os.O_WRONLY | os.O_APPEND, "mine!", "FileNotFoundError"),
            (make, "!ine", "!"),
            (make | os.O_TRUNC, "!", "!"),
            (make | os.O_EXCL, "FileExistsError", "!"),
            (make | os.O_EXCL | os.O_TRUNC, "FileExistsError", "!"),
        ):
            with self.subTest(flags=flags), tempfile.TemporaryDirectory() as traces:
                self.overlay = overlay.Overlay(traces)
                self.assertEqual(self.opened(self.mine, flags), mine)
                self.assertEqual(self.opened(self.none, flags), none)
                self.assertFalse(os.path.exists(self.none))
                with open(self.mine, encoding="ascii") as file:
                    self.assertEqual(file.read(), "mine")

    def test_a_mode_says_what_is_kept_and_what_must_not_be_there(self):
        for mode, kept in (("a", "mine"), ("r+", "mine"), ("w", None), ("w+", None), ("x", None)):
            with self.subTest(mode=mode), tempfile.TemporaryDirectory() as traces:
                seen = overlay.Overlay(traces)
                if mode == "x":
                    with self.assertRaises(FileExistsError):
                        by_number.place_of(seen, self.mine, mode)
                path = by_number.place_of(seen, self.mine if mode != "x" else self.none, mode)
                self.assertTrue(path.startswith(traces))
                self.assertEqual(os.path.exists(path), kept is not None)
        self.assertEqual(by_number.place_of(self.overlay, self.mine, "rb"), self.mine)


class Headers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "a.safetensors")

    def put(self, length, text):
        with open(self.path, "wb") as file:
            file.write(length.to_bytes(8, "little") + text)

    def test_a_file_that_cannot_be_read_is_one_clear_error(self):
        whole = b'{"a": {"dtype": "F32", "shape": [2]}}'
        self.put(len(whole), whole)
        self.assertEqual(list(weights.read_header(self.path)), ["a"])
        for length, text in (
            (0, b"{}"),
            (10**8 + 1, b"{}"),
            (3, b"{}}"),
            (2, b"\xff{"),
            (2, b"[]"),
        ):
            self.put(length, text)
            with self.subTest(length=length, text=text), self.assertRaises(Failure) as caught:
                weights.read_header(self.path)
            self.assertEqual(caught.exception.code, "bad-safetensors")

    def test_an_entry_that_cannot_be_read_is_one_clear_error(self):
        for entry in (
            "{}",
            '{"dtype": "F32"}',
            '{"dtype": "F33", "shape": [2]}',
            '{"dtype": "F32", "shape": 2}',
            '{"dtype": "F32", "shape": ["many"]}',
            "[]",
        ):
            text = f'{{"a": {entry}}}'.encode()
            self.put(len(text), text)
            file = weights.HeaderFile(self.path, "cpu", Places())
            with self.subTest(entry), self.assertRaises(Failure) as caught:
                file.get_tensor("a")
            self.assertEqual(caught.exception.code, "bad-safetensors")


IN_PYTHON = """
import os, subprocess, sys, torch

torch.zeros(1 << 20, device="cuda")
os.makedirs("out")
with open("out/a.txt", "w") as file:
    file.write("hello")
with open("prepare.py", "w") as file:
    file.write('''
import os, subprocess, sys, helper
assert sys.argv[1:] == ["out/a.txt"] and os.path.basename(__file__) == "prepare.py"
os.makedirs("out/prepared")
with open("out/prepared/b.txt", "w") as file:
    file.write(open(sys.argv[1]).read() + helper.WORD)
with open("mine.txt", "a") as file:
    file.write(" and more")
again = "open('out/prepared/c.txt', 'w').write(open('out/prepared/b.txt').read())"
subprocess.run([sys.executable, "-c", again], check=True)
''')
subprocess.run([sys.executable, "-u", "-W", "ignore", "prepare.py", "out/a.txt"], check=True)
assert open("out/prepared/b.txt").read() == open("out/prepared/c.txt").read() == "hello world"
assert open("mine.txt").read() == "mine and more" and os.listdir("out/prepared")
# With variables of its own, and its own code that Python runs first.
read = "import builtins; assert builtins.first and open('out/a.txt').read() == 'hello'"
variables = {name: os.environ[name] for name in ("PATH", "PYTHONDONTWRITEBYTECODE")}
variables["PYTHONPATH"] = os.path.abspath("first")
subprocess.run([sys.executable, "-c", read], check=True, env=variables)
assert "PLIMSOLL_FILES" not in os.environ
"""

OF_OTHERS = """
import os, subprocess, torch

torch.zeros(1 << 20, device="cuda")
os.makedirs("out")
with open("out/a.txt", "w") as file:
    file.write("hello")
assert subprocess.check_output(["cat", "out/a.txt", "mine.txt"]) == b"hellomine"
assert subprocess.check_output("cat <out/a.txt | tr h j", shell=True) == b"jello"
subprocess.run(["cp", "out/a.txt", "out/b.txt"], check=True)
subprocess.run(["dd", "if=out/b.txt", "of=out/c.txt"], check=True, stderr=subprocess.DEVNULL)
os.system("mkdir -p out/deep/er && cp out/c.txt out/deep/er/d.txt")
assert open("out/deep/er/d.txt").read() == "hello"
assert subprocess.check_output(["cat", "b.txt"], cwd="out") == b"hello"
subprocess.run(["cp", "b.txt", "e.txt"], cwd="out", check=True)
assert sorted(os.listdir("out")) == ["a.txt", "b.txt", "c.txt", "deep", "e.txt"]
"""

OF_MULTIPROCESSING = """
import multiprocessing, os, torch

def write(task):
    way, number = task
    os.makedirs(f"out/{way}", exist_ok=True)
    with open(f"out/{way}/{number}.txt", "w") as file:
        file.write(str(number))

if __name__ == "__main__":
    torch.zeros(1 << 20, device="cuda")
    for way in ("fork", "spawn"):
        with multiprocessing.get_context(way).Pool(2) as pool:
            pool.map(write, [(way, number) for number in range(3)])
        assert sorted(os.listdir(f"out/{way}")) == ["0.txt", "1.txt", "2.txt"]
        assert open(f"out/{way}/2.txt").read() == "2"
"""


class Started(TracedFolder):
    def setUp(self):
        super().setUp()
        self.put("mine.txt", "mine")

    def test_those_in_python(self):
        self.put("helper.py", "WORD = ' world'")
        self.put("first/sitecustomize.py", "import builtins; builtins.first = True")
        self.put("train.py", IN_PYTHON)
        self.leaves_all_as_it_is("train.py")

    def test_other_programs(self):
        self.put("train.py", OF_OTHERS)
        self.leaves_all_as_it_is("train.py")

    def test_a_note_says_that_nothing_keeps_files_of_other_programs_apart(self):
        self.put("train.py", "import os, torch\ntorch.zeros(9, device='cuda')\nos.system('true')")
        with tempfile.NamedTemporaryFile() as trace:
            self.ends_well(self.start("train.py", protection=COPIES, output=trace.name))
            (notes,) = (json.loads(line)["notes"] for line in trace if b'"notes"' in line)
        self.assertEqual([note for note in notes if "for real" in note], [WRITE_FOR_REAL])

    def test_those_of_multiprocessing(self):
        self.put("train.py", OF_MULTIPROCESSING)
        self.leaves_all_as_it_is("train.py")


if __name__ == "__main__":
    unittest.main()
