"""The command that pip installs: what it says where something is missing, and what it starts."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PACKAGE = os.path.join(os.path.dirname(__file__), "..", "plimsoll")


class TheCommand(unittest.TestCase):
    def setUp(self):
        outer = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, outer)
        self.root = os.path.join(outer, "python")
        # As a wheel has it: the package, with what the tests put into `_command`.
        self.folder = os.path.join(self.root, "plimsoll")
        shutil.copytree(
            PACKAGE, self.folder, ignore=shutil.ignore_patterns("_command", "__pycache__")
        )

    def program(self, path, text):
        file = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(file, 0o755)
        return file

    def run_command(self, *arguments, **environment):
        return subprocess.run(
            [sys.executable, "-m", "plimsoll.command", *arguments],
            cwd=self.root,
            env={"PATH": self.folder, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def refused(self, done, code):
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, f"^plimsoll: {code}: .*\n$")

    def test_without_the_command(self):
        self.refused(self.run_command("devices"), "no-command")

    def test_without_node(self):
        self.program("_command/bin/plimsoll.js", "")
        self.refused(self.run_command("devices"), "no-node")

    def test_with_an_old_node(self):
        self.program("_command/bin/plimsoll.js", "")
        self.program("node", "#!/bin/sh\necho v18.3.0\n")
        self.refused(self.run_command("devices"), "old-node")

    def test_with_the_node_of_the_machine(self):
        starter = self.program("_command/bin/plimsoll.js", "")
        script = '#!/bin/sh\n[ "$1" = --version ] && echo v20.19.0 || printf "%s\\n" "$@"\n'
        mine = self.program("elsewhere/node22", script)
        done = self.run_command("run", "--", "a b", PLIMSOLL_NODE=mine)
        self.assertEqual(done.stdout.split("\n"), [starter, "run", "--", "a b", ""])

    def test_as_a_module_and_in_a_checkout(self):
        starter = self.program("../../bin/plimsoll.js", "")
        mine = self.program(
            "elsewhere/node22", '#!/bin/sh\n[ "$1" = --version ] && echo v22.1.0 || echo "$@"\n'
        )
        done = subprocess.run(
            [sys.executable, "-m", "plimsoll", "devices", "--json"],
            cwd=self.root, env={"PATH": "", "PLIMSOLL_NODE": mine}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(done.stdout, f"{os.path.realpath(starter)} devices --json\n")

    def test_with_the_node_inside_and_its_exit_code(self):
        self.program("_command/bin/plimsoll.js", "")
        self.program("_command/runtime/node", '#!/bin/sh\necho "$PLIMSOLL_PYTHON"\nexit 41\n')
        done = self.run_command()
        self.assertEqual(done.returncode, 41)
        self.assertTrue(os.path.samefile(done.stdout.strip(), sys.executable))


if __name__ == "__main__":
    unittest.main()
