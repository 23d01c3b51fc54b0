"""Processes that a program starts find what it wrote, and what they write is found."""

import json
import tempfile
import unittest

from tracing.files.traced_folder import TracedFolder

from plimsoll_trace.options import COPIES
from plimsoll_trace.programs.children import WRITE_FOR_REAL

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
