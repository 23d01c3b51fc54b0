"""A million transitions in `plimsoll.replay`, beside plain arrays: memory, and samples a second, turn by turn.

    python bench/python_replay.py [--rows 1000000] [--rounds 15] [--json]

Exit code 1 when it holds less than 40 % less, or samples at less than 0.8 x of the plain arrays.
"""

import argparse
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import numpy

import plimsoll
from plimsoll.replay_buffer import SumTree

BATCH, DRAWS = 256, 40
TARGETS = {"less": 0.4, "throughput": 0.8}


class Plain:
    """One array for each field, the next observation in an array of its own; the usual way."""

    def __init__(self, fields, priority):
        self.fields, self.rows = fields, len(fields["reward"])
        self.random = numpy.random.default_rng(1)
        self.tree = SumTree(self.rows, dtype="float64") if priority else None
        if self.tree is not None:
            self.tree.set(numpy.arange(self.rows), 1.0)

    @property
    def nbytes(self):
        return sum(one.nbytes for one in (*self.fields.values(), self.tree) if one is not None)

    def sample(self, batch):
        if self.tree is None:
            rows = self.random.integers(0, self.rows, batch)
            return {name: one[rows] for name, one in self.fields.items()}
        total = self.tree.total
        rows = self.tree.find((numpy.arange(batch) + self.random.random(batch)) * (total / batch))
        weight = (self.tree.of(rows) * (self.rows / total)) ** -0.4
        return {
            **{name: one[rows] for name, one in self.fields.items()},
            "weight": weight / weight.max(),
        }

    def update_priorities(self, rows, errors):
        self.tree.set(rows, (numpy.abs(errors) + 1e-6) ** 0.6)


def states(rows, size, actions):
    """A walk of `size` float32 numbers, episodes of 1,000 steps: joint angles, speeds."""
    draw = numpy.random.default_rng(7)
    made = draw.standard_normal((rows + rows // 1000 + 1, size), dtype=numpy.float32)
    numbers = numpy.arange(rows) + numpy.arange(rows) // 1000
    return {
        "observation": made[numbers],
        "next_observation": made[numbers + 1],
        "action": draw.standard_normal((rows, actions), dtype=numpy.float32),
        "reward": draw.standard_normal(rows, dtype=numpy.float32),
        "terminated": numpy.arange(rows) % 1000 == 999,
    }


def frames(rows):
    """uint8 frames of 42 x 42, actions as numbers."""
    draw = numpy.random.default_rng(7)
    made = draw.integers(0, 255, (rows + rows // 1000 + 1, 42, 42), dtype=numpy.uint8)
    numbers = numpy.arange(rows) + numpy.arange(rows) // 1000
    return {
        "observation": made[numbers],
        "next_observation": made[numbers + 1],
        "action": draw.integers(0, 18, rows),
        "reward": numpy.zeros(rows, dtype=numpy.float32),
        "terminated": numpy.arange(rows) % 1000 == 999,
    }


def taken(memory):
    begin = time.perf_counter()
    for _ in range(DRAWS):
        memory.sample(BATCH)
    return BATCH * DRAWS / (time.perf_counter() - begin)


def compared(name, fields, priority, rounds):
    plain = Plain(fields, priority)
    ours = plimsoll.replay(len(fields["reward"]), priority=0.6 if priority else None, seed=1)
    order = ("observation", "action", "reward", "next_observation", "terminated")
    ours.extend(*(fields[key] for key in order))
    rates = {"plain": [], "ours": []}
    for _ in range(rounds):
        rates["plain"].append(taken(plain))
        rates["ours"].append(taken(ours))
    return {
        "case": name + (", by priority" if priority else ", uniform"),
        "rows": len(ours),
        "plainBytes": plain.nbytes,
        "bytes": ours.nbytes,
        "less": 1 - ours.nbytes / plain.nbytes,
        "plainPerSecond": statistics.median(rates["plain"]),
        "perSecond": statistics.median(rates["ours"]),
        # Of pairs that ran one after the other: a busy machine slows both.
        "throughput": statistics.median(b / a for a, b in zip(rates["plain"], rates["ours"])),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cases = {
        "17 numbers, 6 actions": lambda: states(options.rows, 17, 6),
        "111 numbers, 8 actions": lambda: states(options.rows, 111, 8),
        "frames of 42 x 42": lambda: frames(options.rows // 4),
    }
    results = []
    for name, make in cases.items():
        fields = make()
        for priority in (False, True):
            found = compared(name, fields, priority, options.rounds)
            results.append(found)
            if not options.json:
                print(
                    f"{found['case']:36} {found['rows']:9,} rows  "
                    f"{found['plainBytes'] / 2**20:7.0f} -> {found['bytes'] / 2**20:6.0f} MiB "
                    f"({100 * found['less']:.1f} % less)  {found['throughput']:.2f} x of "
                    f"{found['plainPerSecond'] / 1e6:.2f} million samples a second"
                )
        del fields
    if options.json:
        print(json.dumps({"results": results, "targets": TARGETS, "source": "measured"}, indent=2))
    good = all(found[key] >= least for found in results for key, least in TARGETS.items())
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
