"""A tracer that stays: what its forks answer, what they inherit, and how it ends."""

import contextlib
import json
import os
import subprocess
import sys
import unittest

from tracing import PACKAGE
from tracing.test_command import SCRIPT, Scripts, run

HANGS = "import time\n\ndef workload():\n    time.sleep(1000)\n"
FILES = (
    SCRIPT
    + """
import os, sys
held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
open(sys.argv[0] and %r, "w").write(repr([path for path in held if not path.endswith(".crash")]))
"""
)


@unittest.skipUnless(sys.platform == "linux", "processes are forked")
class Warm(Scripts):
    def setUp(self):
        super().setUp()
        environment = {**os.environ, "PYTHONPATH": PACKAGE, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", "-m", "plimsoll.trace", "--warm"]
        pipe = subprocess.PIPE
        self.tracer = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True)
        self.addCleanup(self.end)
        self.assertEqual(self.hear(), {"ready": True})

    def end(self):
        self.tracer.stdin.close()
        self.tracer.stdout.close()
        self.tracer.wait()

    def hear(self):
        return json.loads(self.tracer.stdout.readline())

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def ask(self, ident, *args):
        question = {
            "id": ident,
            "args": [*args, "--output", self.path("trace.jsonl")],
            "stdout": self.path("stdout"),
            "stderr": self.path("stderr"),
            "temporary": self.folder.name,
        }
        self.tracer.stdin.write(json.dumps(question) + "\n")
        self.tracer.stdin.flush()
        started = self.hear()
        self.assertEqual(started["id"], ident)
        return started["pid"]

    def test_questions_are_answered_each_by_itself(self):
        # One after another: what it takes to start is seconds.
        self.same_answers_as_a_process_of_its_own()
        self.an_error_is_that_of_the_question_alone()
        self.a_fork_has_no_pipe_of_the_tracer()
        self.it_ends_with_its_input_and_takes_what_runs_with_it()

    def same_answers_as_a_process_of_its_own(self):
        self.assertEqual(os.listdir(f"/proc/{self.tracer.pid}/task"), [str(self.tracer.pid)])
        script = self.script()
        _, cold = run("--script", script, "--steps", "2")
        for ident in (1, 2):
            self.ask(ident, "--script", script, "--steps", "2")
            self.assertEqual(self.hear(), {"id": ident, "status": 0, "signal": None})
            with open(self.path("trace.jsonl"), encoding="utf-8") as file:
                warm = [json.loads(line) for line in file]
            self.assertEqual(warm[1:-1], cold[1:-1])

    def an_error_is_that_of_the_question_alone(self):
        self.ask(1, "--config", self.path("none.json"))
        self.assertEqual(self.hear(), {"id": 1, "status": 2, "signal": None})
        with open(self.path("stdout"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["error"]["code"], "config-unreadable")
        self.ask(2, "--script", self.script(), "--steps", "1")
        self.assertEqual(self.hear()["status"], 0)

    def a_fork_has_no_pipe_of_the_tracer(self):
        self.ask(1, "--script", self.script(FILES % self.path("files")), "--steps", "1")
        self.assertEqual(self.hear()["status"], 0)
        with open(self.path("files"), encoding="utf-8") as file:
            # Its own three, and the folder that is being listed. Left out is the file for a crash, which a trace holds
            # on purpose.
            self.assertLessEqual(len(eval(file.read())), 4)

    def it_ends_with_its_input_and_takes_what_runs_with_it(self):
        pid = self.ask(1, "--script", self.script(HANGS))
        self.tracer.stdin.close()
        self.assertEqual(self.tracer.wait(), 0)
        # It may go at any point of the look.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            while True:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    if " Z " in file.read():
                        break
