"""Files that a program writes and then reads by other means than Python's `open`."""

import unittest
from importlib.util import find_spec

from tracing.files.traced_folder import TracedFolder

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


if __name__ == "__main__":
    unittest.main()
