"""A folder with a program in it that is traced there, as the command does it."""

import os
import subprocess
import sys
import tempfile
import unittest

import warm

from tracing import PACKAGE

from plimsoll_trace.options import COPIES


class TracedFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def put(self, path, text):
        whole = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as file:
            file.write(text)

    def start(self, program, scratch=None, protection=None, output=os.devnull):
        command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--output", output]
        temporary = {} if scratch is None else {"TMPDIR": scratch}
        return warm.Popen(
            [
                *command,
                *(["--scratch", scratch] if scratch else []),
                *(["--protection", protection] if protection else []),
                "--program",
                program,
            ],
            cwd=self.folder,
            env={
                **os.environ,
                **temporary,
                "PYTHONPATH": os.pathsep.join([PACKAGE, os.environ.get("PYTHONPATH", "")]),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PLIMSOLL_DEBUG": "",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ends_well(self, process):
        output, _ = process.communicate()
        self.assertEqual(process.returncode, 0, output)

    def lying(self):
        """Each file and folder, with what is in it."""
        found = {}
        for folder, folders, names in os.walk(self.folder):
            found.update((os.path.join(folder, name), None) for name in folders)
            for name in names:
                found[os.path.join(folder, name)] = self._text(os.path.join(folder, name))
        return {os.path.relpath(path, self.folder): text for path, text in found.items()}

    def leaves_all_as_it_is(self, program):
        """Traces it, and nothing lies in its folder after that but what lay there, unchanged."""
        before = self.lying()
        # As this machine allows it, and as it is where the kernel allows nothing.
        for protection in (None, COPIES):
            with self.subTest(protection=protection):
                self.ends_well(self.start(program, protection=protection))
                self.assertEqual(self.lying(), before)

    @staticmethod
    def _text(path):
        if not os.path.isfile(path):
            # A pipe, or a link that leads nowhere.
            return None
        with open(path, "rb") as file:
            return file.read()
