"""Files that a traced program writes are read back by any means, and are to the byte as before when it ends."""

import os
import re
import sqlite3
import stat
import tempfile
import unittest
from importlib.util import find_spec
from typing import NamedTuple

from tracing.watching import TracedFolder

from plimsoll_trace.options import COPIES, VIEW

# A library in C: it opens files without Python.
OPENS_ITSELF = """
import posix

def read(path):
    number = posix.open(path, posix.O_RDONLY)
    return posix.read(number, 100)

def write(path, text):
    number = posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC)
    posix.write(number, text)
"""

GPU = """
import torch
torch.zeros(1 << 20, device="cuda")
"""

BY_NUMBER = """
import importlib.util, io, os, pathlib, tempfile

os.makedirs("out")
with open("out/a.txt", "w") as file:
    file.write("hello")
number = os.open("out/a.txt", os.O_RDONLY)
assert os.read(number, 5) == b"hello"
os.close(number)
number = os.open("mine.txt", os.O_WRONLY | os.O_APPEND)
os.write(number, b" and more")
os.close(number)
assert open("mine.txt").read() == "mine and more"
number = os.open("notes.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
os.close(number)
os.truncate("out/a.txt", 2)
assert open("out/a.txt").read() == "he" and open("notes.txt").read() == ""
for path, flags in (("notes.txt", os.O_CREAT | os.O_EXCL), ("none.txt", 0)):
    try:
        os.open(path, os.O_WRONLY | flags)
    except (FileExistsError, FileNotFoundError):
        pass
    else:
        raise AssertionError(path)
try:
    open("mine.txt", "x")
except FileExistsError:
    pass
else:
    raise AssertionError("x")

with io.FileIO("out/b.txt", "w") as file:
    assert isinstance(file, io.FileIO)
    file.write(b"123")
assert io.FileIO("out/b.txt").read() == b"123"
assert isinstance(open("out/b.txt", "rb").raw, io.FileIO) and not isinstance(3, io.FileIO)
pathlib.Path("out/touched").touch()
assert os.path.getsize("out/touched") == 0
os.symlink("a.txt", "out/link")
assert os.readlink("out/link").endswith("a.txt") and open("out/link").read() == "he"

with open("out/layers.py", "w") as file:
    file.write("WIDTH = 8")
spec = importlib.util.spec_from_file_location("layers", "out/layers.py")
layers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(layers)
assert layers.WIDTH == 8

with tempfile.NamedTemporaryFile(dir="out") as file:
    assert os.path.exists(file.name)
assert not os.path.exists(file.name)
with tempfile.TemporaryDirectory(dir="out") as folder:
    open(os.path.join(folder, "a"), "w").close()
assert not os.path.exists(folder)
"""

DATABASE = """
import os, sqlite3

for path in ("new.db", "old.db"):
    with sqlite3.connect(path) as file:
        file.execute("create table rows (number)")
        file.execute("insert into rows values (7)")
    assert sqlite3.connect(path).execute("select * from rows").fetchall() == [(7,)]
    assert os.path.getsize(path) > 0
assert sqlite3.connect(":memory:").execute("select 1").fetchall() == [(1,)]
"""

MAPPED = """
import numpy as np

np.arange(100, dtype=np.uint8).tofile("numbers.bin")
assert np.memmap("numbers.bin", mode="r")[3] == 3
assert torch.from_file("numbers.bin", dtype=torch.uint8, size=100)[3] == 3
torch.from_file("old.bin", shared=True, dtype=torch.uint8, size=4).fill_(1)
assert open("old.bin", "rb").read() == b"\\1\\1\\1\\1"
torch.save({"a": torch.ones(100)}, "saved.pt")
assert torch.load("saved.pt", mmap=True)["a"][3] == 1
from safetensors import numpy as saved, safe_open
saved.save_file({"a": np.ones(3)}, "saved.safetensors")
assert safe_open("saved.safetensors", "np").get_tensor("a")[2] == 1
"""

PICTURES = """
import os
from torchvision import io

os.makedirs("out")
io.write_png(torch.zeros(3, 8, 8, dtype=torch.uint8), "out/a.png")
io.write_file("out/b.png", io.read_file("out/a.png"))
for path in ("out/a.png", "out/b.png"):
    assert io.read_image(path).shape == (3, 8, 8) and io.decode_image(path).shape == (3, 8, 8)
"""

TOKENS = """
from tokenizers import ByteLevelBPETokenizer, Tokenizer, models, trainers

with open("text.txt", "w") as file:
    file.write("hello world " * 50)
made = Tokenizer(models.BPE())
made.train(["text.txt"], trainers.BpeTrainer(vocab_size=40))
made.train(files=["text.txt"])
made.save("words.json")
assert Tokenizer.from_file("words.json").get_vocab_size() == made.get_vocab_size()
pieces = ByteLevelBPETokenizer()
pieces.train("text.txt", vocab_size=260)
pieces.save_model(".")
for read in (ByteLevelBPETokenizer, ByteLevelBPETokenizer.from_file):
    assert read("vocab.json", "merges.txt").get_vocab_size() == 260
assert models.BPE.from_file("vocab.json", "merges.txt")
"""

TABLES = """
import pandas

table = pandas.DataFrame({"a": [1, 2]})
table.to_parquet("table.parquet")
assert pandas.read_parquet("table.parquet").a.sum() == 3
table.to_csv("table.csv")
assert pandas.read_csv("table.csv", engine="pyarrow").a.sum() == 3
"""

# As `h5py` and `cv2` take them: by mode, and by name.
OF_C = """
import cv2, h5py

cv2.imwrite("a.png", b"picture")
assert cv2.imread("a.png") == b"picture" and cv2.imread(filename="mine.txt") == b"mine"
h5py.File("a.h5", "w")
assert h5py.File("a.h5").text == b"new" and h5py.File("mine.txt", mode="r").text == b"mine"
h5py.File("mine.txt", "a")
assert h5py.File("mine.txt").text == b"new"
"""
PICTURES_OF_C = """
import opens_itself

def imread(filename):
    return opens_itself.read(filename)

def imwrite(filename, text):
    opens_itself.write(filename, text)
"""
TABLES_OF_C = """
import opens_itself

class File:
    def __init__(self, name, mode="r"):
        if mode != "r":
            opens_itself.write(name, b"new")
        self.text = opens_itself.read(name)
"""


class Written(TracedFolder):
    def traces(self, text):
        self.put("mine.txt", "mine")
        self.put("old.bin", "1234")
        self.put("old.db", "")
        self.put("train.py", GPU + text)
        self.leaves_all_as_it_is("train.py")

    def test_by_number_as_raw_files_and_as_code(self):
        self.traces(BY_NUMBER)

    def test_databases(self):
        self.traces(DATABASE)

    @unittest.skipUnless(find_spec("numpy") and find_spec("safetensors"), "needs both")
    def test_mapped_into_memory(self):
        self.traces(MAPPED)

    @unittest.skipUnless(find_spec("torchvision"), "needs torchvision")
    def test_pictures(self):
        self.traces(PICTURES)

    @unittest.skipUnless(find_spec("tokenizers"), "needs tokenizers")
    def test_tokenizers(self):
        self.traces(TOKENS)

    @unittest.skipUnless(find_spec("pandas") and find_spec("pyarrow"), "needs both")
    def test_tables(self):
        self.traces(TABLES)

    def test_libraries_in_c_get_the_places_of_files(self):
        self.put("opens_itself.py", OPENS_ITSELF)
        self.put("cv2.py", PICTURES_OF_C)
        self.put("h5py.py", TABLES_OF_C)
        self.traces(OF_C)


ALL = (VIEW, COPIES)
# Only the kernel sees what other programs and libraries in C do.
BY_KERNEL = (VIEW,)


class Deed(NamedTuple):
    code: str
    kept_by: tuple = ALL
    refused_by: tuple = ()


PYTHON = 'open(r"{0}", "w").write("changed")'
# `at(name)` is a path in the folder of this way: `a` is a file, `link` leads to it, `tree/f` is another.
WAYS = {
    "open": Deed("open(at('a'), 'w').write('changed')"),
    "open to append": Deed("open(at('a'), 'a').write('changed')"),
    "open by number": Deed(
        "os.close(os.open(at('a'), os.O_WRONLY | os.O_TRUNC)); assert not read('a')"
    ),
    "open by number to read and write": Deed(
        "n = os.open(at('a'), os.O_RDWR); os.ftruncate(n, 0); os.close(n); assert not read('a')"
    ),
    "truncate": Deed("os.truncate(at('a'), 0); assert not read('a')"),
    "bytes": Deed("open(os.fsencode(at('a')), 'w').write('changed')"),
    "through a link": Deed("open(at('link'), 'w').write('changed')"),
    "a new link": Deed(
        "os.symlink(at('a'), at('new')); open(at('new'), 'w').write('changed')\n"
        "assert read('a') == read('new') == 'changed'"
    ),
    "a new link to a folder": Deed(
        "os.symlink(at('tree'), at('new')); open(at('new/f'), 'w').write('changed')\n"
        "open(at('new/g'), 'w').write('new'); assert read('new/g') == 'new'\n"
        "assert read('tree/f') == 'changed'; os.remove(at('new/f'))"
    ),
    "a new hard link": Deed("os.link(at('a'), at('new')); open(at('new'), 'w').write('changed')"),
    "chmod": Deed("os.chmod(at('a'), 0o700); assert os.stat(at('a')).st_mode & 0o777 == 0o700"),
    "chmod of a folder": Deed("os.chmod(at('tree'), 0o700)"),
    "chmod by number": Deed(
        "f = open(at('a')); os.fchmod(f.fileno(), 0o700); os.utime(f.fileno(), (1, 1))"
    ),
    "chmod of pathlib": Deed("pathlib.Path(at('a')).chmod(0o700)"),
    "touch": Deed("pathlib.Path(at('a')).touch()"),
    "utime": Deed("os.utime(at('a'), (1, 1)); assert os.stat(at('a')).st_mtime == 1"),
    "attributes": Deed("os.setxattr(at('a'), 'user.x', b'1')"),
    "a named pipe": Deed(
        "os.mkfifo(at('pipe')); assert stat.S_ISFIFO(os.stat(at('pipe')).st_mode)"
    ),
    "a socket": Deed(
        "s = socket.socket(socket.AF_UNIX); s.bind(at('socket')); s.listen()\n"
        "c = socket.socket(socket.AF_UNIX); c.connect(at('socket')); assert os.path.exists(at('socket'))",
        BY_KERNEL,
    ),
    "rename": Deed("os.rename(at('a'), at('b')); assert not os.path.exists(at('a'))"),
    "rename of a folder": Deed("os.rename(at('tree'), at('wood')); assert read('wood/f') == 'f'"),
    "remove": Deed("os.remove(at('a'))"),
    "remove a tree": Deed("shutil.rmtree(at('tree'))"),
    "make folders": Deed("os.makedirs(at('new/deeper'))"),
    "sqlite": Deed("insert(sqlite3.connect(at('db')), 't')"),
    "sqlite by a URI": Deed(
        "insert(sqlite3.connect('file:' + at('db') + '?mode=rw', uri=True), 't')"
    ),
    "sqlite attached": Deed(
        "c = sqlite3.connect(':memory:'); c.execute(\"ATTACH DATABASE '%s' AS x\" % at('db')); insert(c, 'x.t')",
        refused_by=(COPIES,),
    ),
    "sqlite attached by a value": Deed(
        "c = sqlite3.connect(':memory:'); c.cursor().execute('attach ? as x', (at('db'),)); insert(c, 'x.t')",
        refused_by=(COPIES,),
    ),
    "sqlite attached by a name": Deed(
        "c = sqlite3.connect(':memory:'); c.execute('attach :p as x', {'p': at('db')}); insert(c, 'x.t')",
        refused_by=(COPIES,),
    ),
    "numpy.memmap": Deed("m = numpy.memmap(at('a'), 'u1', 'r+'); m[:1] = 88; m.flush()"),
    "a child in Python": Deed("child([sys.executable, '-c', PYTHON.format(at('a'))])"),
    "a child without variables": Deed(
        "child([sys.executable, '-c', PYTHON.format(at('a'))], env={})"
    ),
    "a child with -I": Deed("child([sys.executable, '-I', '-c', PYTHON.format(at('a'))])"),
    "a child with -E and a file": Deed("child([sys.executable, '-E', 'writes.py', at('a')])"),
    "a child with -S": Deed("child([sys.executable, '-S', '-c', PYTHON.format(at('a'))])"),
    "a child with -Ic in one word": Deed("child([sys.executable, '-Ic', PYTHON.format(at('a'))])"),
    "a child of env -i": Deed(
        "child(['env', '-i', sys.executable, '-c', PYTHON.format(at('a'))])", BY_KERNEL
    ),
    "a child of multiprocessing": Deed(
        "c = multiprocessing.get_context('spawn').Process(target=change, args=(at('a'),)); c.start(); c.join()\n"
        "assert read('a') == 'changed'"
    ),
    "a shell": Deed("os.system('echo changed > ' + at('a'))", BY_KERNEL),
    "a shell that starts Python": Deed(
        "child(['sh', '-c', f\"{sys.executable} -I -c 'open(\\\"{at('a')}\\\", \\\"w\\\")'\"])",
        BY_KERNEL,
    ),
    "touch of a shell": Deed("child(['touch', at('a')])", BY_KERNEL),
    "chmod of a shell": Deed("child(['chmod', '700', at('a')])", BY_KERNEL),
    "posix_spawn": Deed(
        "os.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', 'echo > ' + at('a')], os.environ), 0)",
        BY_KERNEL,
    ),
    "a library in C": Deed(
        "ctypes.CDLL(None).truncate(os.fsencode(at('a')), ctypes.c_long(0))", BY_KERNEL
    ),
    "a library in C that removes": Deed(
        "ctypes.CDLL(None).unlink(os.fsencode(at('a')))", BY_KERNEL
    ),
}

PROGRAM = """
import ctypes, multiprocessing, os, pathlib, shutil, socket, sqlite3, stat, subprocess, sys, traceback
import numpy, torch

PYTHON = {python!r}

def child(command, **options):
    subprocess.run(command, check=True, **options)

def change(path):
    open(path, "w").write("changed")

def insert(connection, table):
    connection.execute(f"insert into {{table}} values (7)")
    connection.commit()
    assert list(connection.execute(f"select x from {{table}}")) == [(1,), (7,)]
    connection.close()

if __name__ == "__main__":
    for number, (name, code) in enumerate({ways!r}.items()):
        def at(path):
            return os.path.join(os.path.abspath(str(number)), path)

        def read(path):
            return open(at(path)).read()

        try:
            exec(code)
        except BaseException:
            print(f"failed: {{name}}:\\n", traceback.format_exc())
    torch.zeros(1 << 20, device="cuda")
"""


class Kept(TracedFolder):
    def test_in_a_view_of_the_kernel(self):
        self._keeps(VIEW)

    def test_in_copies_of_the_trace(self):
        self._keeps(COPIES)

    def _keeps(self, protection):
        ways = {name: way.code for name, way in WAYS.items() if protection in way.kept_by}
        for number in range(len(ways)):
            for name, text in (("a", "a"), ("tree/f", "f")):
                self.put(f"{number}/{name}", text)
            os.symlink("a", os.path.join(self.folder, str(number), "link"))
            with sqlite3.connect(os.path.join(self.folder, str(number), "db")) as database:
                database.execute("create table t (x)")
                database.execute("insert into t values (1)")
            database.close()
        self.put("writes.py", "import sys\nopen(sys.argv[1], 'w').write('changed')\n")
        self.put("train.py", PROGRAM.format(python=PYTHON, ways=ways))
        before = self._all()
        with tempfile.TemporaryDirectory() as scratch:
            process = self.start("train.py", scratch, protection)
            output, _ = process.communicate()
        if '"protection-missing"' in output:
            self.skipTest("this machine does not allow it")
        self.assertEqual(process.returncode, 0, output)
        refused = [name for name, way in WAYS.items() if protection in way.refused_by]
        self.assertEqual(re.findall("^failed: (.*):$", output, re.MULTILINE), refused, output)
        after = self._all()
        names = dict(enumerate(ways))
        changed = [
            path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
        ]
        self.assertEqual([(path, names.get(int(path.split("/")[0]))) for path in changed], [])

    def _all(self):
        found = {}
        for folder, folders, files in os.walk(self.folder):
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                about = os.lstat(path)
                # Whether entries came and went is not asked of folders.
                time = None if stat.S_ISDIR(about.st_mode) else about.st_mtime_ns
                text = None
                if stat.S_ISREG(about.st_mode):
                    with open(path, "rb") as file:
                        text = file.read()
                attributes = os.listxattr(path, follow_symlinks=False)
                found[os.path.relpath(path, self.folder)] = (about.st_mode, time, text, attributes)
        return found


if __name__ == "__main__":
    unittest.main()
