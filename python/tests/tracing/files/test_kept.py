"""However a program changes its files, they are afterwards what they were: to the byte, with their modes and times."""

import os
import re
import sqlite3
import stat
import tempfile
import unittest
from typing import NamedTuple

from tracing.files.traced_folder import TracedFolder

from plimsoll_trace.options import COPIES, VIEW

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
