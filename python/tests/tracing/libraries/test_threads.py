"""Threads of a program: what they do on the GPU is counted, and what ends one of them ends the trace."""

import tempfile
import unittest

from tracing.kinds.test_crashes import traced
from tracing.kinds.traced_program import rows_of

WORDS = """
import queue
import threading
import torch

model = torch.nn.Linear(1000, 10).cuda()
words = queue.Queue()

class Writer(threading.Thread):
    def run(self):
        batch = torch.zeros(3000, 1000).cuda()
        with torch.no_grad():
            for row in model(batch)[:5]:
                words.put(row.argmax().item())
        words.put(None)

Writer().start()
read = iter(words.get, None)
assert len(list(read)) == 5

def late():
    gate.wait()
    assert torch.zeros(2000, 1000, device="cuda").is_cuda

gate = threading.Event()
threading.Thread(target=late).start()
gate.set()
"""

WAITS = """
import queue
import threading
import torch

words = queue.Queue()

def write():
    words.put(torch.zeros(5, device="cuda").missing())

threading.Thread(target=write, daemon=True).start()
words.get()
"""


class ThreadsOfAProgram(unittest.TestCase):
    def test_what_a_thread_does_on_the_gpu_is_counted(self):
        asked = [row[2] for row in rows_of(self, WORDS) if isinstance(row, list) and row[0] == "a"]
        self.assertIn(3000 * 1000 * 4, asked)
        # That of a thread which the program does not wait for.
        self.assertIn(2000 * 1000 * 4, asked)

    def test_a_thread_that_fails_ends_a_program_that_waits_for_it(self):
        with tempfile.TemporaryDirectory() as folder:
            done = traced(folder, WAITS)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("AttributeError", done.stdout)
        self.assertIn("train.py:9", done.stdout)


if __name__ == "__main__":
    unittest.main()
