"""Runs a program as it is, in this process; afterwards writes what its recovering steps did, where it had any.

Usage: observe.py REPORT PROGRAM ARGUMENTS. It imports what the program imports, says READY, and waits for a line:
so several can be made ready at once, and train one after another.
"""

import ast
import gc
import json
import logging
import os
import runpy
import sys
import time

report, program, *words = sys.argv[1:]
logging.getLogger("plimsoll").setLevel(logging.INFO)
sys.argv = [program, *words]
# As Python does for a program that it starts itself.
sys.path[0] = os.path.dirname(os.path.abspath(program))
with open(program, encoding="utf-8") as file:
    tree = ast.parse(file.read())
tree.body = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
exec(compile(tree, program, "exec"), {})
torch = sys.modules["torch"]
if torch.cuda.is_available():
    torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")
    torch.cuda.empty_cache()
print("READY", flush=True)
sys.stdin.readline()

began, marks, kept = time.perf_counter(), [], []


def collected(phase, info):
    if info["generation"] == 2:
        marks.append([f"collection {phase}", time.perf_counter() - began])


def timed(module, name):
    """Where a recovery's time goes: each call of one of its parts, to the end of its work on the card."""
    owner = sys.modules.get(module)
    real = getattr(owner, name, None)
    if real is None:
        return

    def call(*arguments, **named):
        start = time.perf_counter() - began
        try:
            return real(*arguments, **named)
        finally:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            marks.append([f"{name}", start, time.perf_counter() - began])

    setattr(owner, name, call)


if "plimsoll.trainers.split_step" in sys.modules:
    gc.callbacks.append(collected)
    for where in ("plimsoll.recovery.steps.training", "plimsoll.trainers.optimizer_retry"):
        timed(where, "give_back_caches")
    timed("plimsoll.trainers.weighing", "rule_of")
    timed("plimsoll.recovery.steps.training", "drop_dead_frames")
    window = sys.modules["plimsoll.trainers.window"].WindowRun
    finished = window.finished

    def part_finished(self, samples, loss, share):
        marks.append([f"part of {samples}", time.perf_counter() - began])
        finished(self, samples, loss, share)

    window.finished = part_finished
try:
    runpy.run_path(program, run_name="__main__")
finally:
    module = sys.modules.get("plimsoll.trainers.split_step")
    if module is not None:
        kept = [one for one in gc.get_objects() if type(one) is module.SplitStep]
    with open(report, "w", encoding="utf-8") as file:
        json.dump({"steps": [one.fitting.report() for one in kept], "marks": marks[:80]}, file)
