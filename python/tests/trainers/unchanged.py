"""Runs a program as `plimsoll run` does it: found by Python through its path, limited by the environment."""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
AUTO = os.path.join(os.path.dirname(os.path.dirname(HERE)), "plimsoll", "_auto")


def run_unchanged(program, limit_bytes=None, more=None, words=()):
    """(exit code, last line of its output as JSON or None, stderr)."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", **(more or {})}
    environment.pop("PLIMSOLL_BRIDGE", None)
    environment["PYTHONPATH"] = AUTO
    # Big blocks go back to the system when they are freed, so that what is held is what is used.
    environment["MALLOC_MMAP_THRESHOLD_"] = "65536"
    if limit_bytes is not None:
        environment["PLIMSOLL_MEMORY_BYTES"] = str(limit_bytes)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(HERE, "programs", program)
        done = subprocess.run(
            [sys.executable, path, folder, *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=3600,  # It ends a program that hangs, also on a machine that is busy with others.
        )
    lines = done.stdout.strip().splitlines()
    answer = json.loads(lines[-1]) if done.returncode == 0 and lines else None
    return done.returncode, answer, done.stderr
