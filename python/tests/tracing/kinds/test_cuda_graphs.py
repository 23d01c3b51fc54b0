"""Compiled programs that ask for CUDA graphs: memory in a pool of its own."""

import json
import os
import sys
import tempfile
import unittest

import warm

from tracing import PACKAGE

TRAINING = """
import sys, torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 512)).cuda()
run = torch.compile(model, mode=sys.argv[1])
for _ in range(3):
    torch.relu(run(torch.zeros(2048, 256).cuda())).sum().backward()
"""
RECORDED = """
import torch
from torch import nn

model = nn.Linear(256, 512).cuda()
optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
given = torch.zeros(2048, 256, device="cuda")

def step():
    optimizer.zero_grad(set_to_none=True)
    model(given).sum().backward()
    optimizer.step()

aside = torch.cuda.Stream()
with torch.cuda.stream(aside):
    step()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, pool=torch.cuda.graph_pool_handle()):
    step()
for _ in range(100):
    given.copy_(torch.zeros(2048, 256))
    graph.replay()
step()
graph.reset()
run = torch.cuda.make_graphed_callables(model, (given,))
run(given).sum().backward()
"""
INPUT, RESULT, WORKSPACE = 2048 * 256 * 4, 2048 * 512 * 4, 32 << 20
POOL = 255
# The stream on which the program warms up.
SIDE = 1


class CudaGraphs(unittest.TestCase):
    def trace(self, mode, program=TRAINING):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
                file.write(program)
            output = os.path.join(folder, "trace.jsonl")
            command = [sys.executable, "-W", "ignore", "-m", "plimsoll.trace", "--output", output]
            done = warm.run(
                [*command, "--program", "train.py", mode],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": PACKAGE},
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(output, encoding="utf-8") as file:
                _, *events, footer = map(json.loads, file)
        return events, footer

    def test_steps_that_a_program_records_lie_in_the_pool_and_are_run_once(self):
        events, footer = self.trace("", RECORDED)
        self.assertTrue(any("that the program records" in note for note in footer["notes"]))
        self.assertTrue(any("make_graphed_callables" in note for note in footer["notes"]))
        self.assertTrue(footer["graphs"])
        results = [event for event in events if event[0] == "a" and event[2] == RESULT]
        self.assertEqual([event[6:] for event in results], [[SIDE], [POOL], [], []])

    def test_what_compiled_code_asks_for_lies_in_the_pool_and_all_else_does_not(self):
        events, footer = self.trace("reduce-overhead")
        self.assertTrue(any("CUDA graphs were followed" in note for note in footer["notes"]))
        self.assertTrue(footer["fused"])
        self.assertFalse(footer["graphs"])
        asked = {event[1]: event for event in events if event[0] == "a"}
        pooled = [event for event in asked.values() if event[6:] == [POOL]]
        # The results of the compiled part; those of the rest lie elsewhere.
        self.assertTrue(any(event[2] == RESULT for event in pooled))
        self.assertTrue(any(event[2] == RESULT and event[6:] == [] for event in asked.values()))
        # The library gives its workspace back after each call.
        freed = {event[1] for event in events if event[0] == "f"}
        workspaces = {event[1] for event in pooled if event[2] == WORKSPACE}
        self.assertTrue(workspaces)
        self.assertLessEqual(workspaces, freed)

    def test_a_recording_has_copies_of_what_it_is_given_and_empties_the_cache_first(self):
        events, _ = self.trace("reduce-overhead")
        names = {event[1]: event[2] for event in events if event[0] == "s"}
        copied = [
            event for event in events if event[0] == "a" and names[event[3]] == "cuda graph input"
        ]
        # Forward is given the input, backward the input that was kept and the gradient of the result;
        # parameters stay where they are.
        self.assertEqual([event[2] for event in copied], [INPUT, INPUT, RESULT])
        self.assertEqual(sum(event[0] == "c" for event in events), 2)
        self.assertEqual(events[events.index(copied[0]) + 1], ["c"])

    def test_where_kernels_are_tried_graphs_are_left_out_and_that_is_said(self):
        _, footer = self.trace("max-autotune")
        self.assertTrue(footer["compiled"])
        self.assertTrue(footer["graphs"])
        self.assertTrue(any("CUDA graphs were left out" in note for note in footer["notes"]))


if __name__ == "__main__":
    unittest.main()
