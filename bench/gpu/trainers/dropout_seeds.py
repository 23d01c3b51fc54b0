"""With dropout no two runs are alike: whether limited runs differ from unlimited ones by more than seeds do.

Usage: dropout_seeds.py OUTPUT.json PLIMSOLL_FOLDER [--steps N] [--seeds N] [--at-once N] [--limit BYTES] [--tiny]
BERT-base in the Trainer of transformers, fp32, dropout 0.1, 64 x 256 tokens: the same weights at the beginning and the
same texts in the same order in all runs, only the seed of dropout differs. Three groups of runs, several at once on the
card: unlimited; limited to a third, with Plimsoll; and a control that loses a quarter of each batch, as a
faulty recovery would. The distance of two runs is the root of the mean square of the differences of their losses.
Exact permutation test: among all ways to deal the runs of two groups into two, the share whose mean curves are at least
as far apart. Exit code 1 when the limited runs are beyond the noise, when none of them was split, or when the control
is not told apart: then the test sees nothing.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LOST = "16"
LEAST_P = 0.05


def distance(one, other):
    return math.sqrt(statistics.fmean((a - b) ** 2 for a, b in zip(one, other)))


def spread(distances):
    ordered = sorted(distances)
    return {
        "pairs": len(ordered),
        "median": statistics.median(ordered),
        "percentile95": ordered[math.ceil(0.95 * len(ordered)) - 1],
        "most": ordered[-1],
    }


def mean_curve(curves):
    return [statistics.fmean(column) for column in zip(*curves)]


def permutation_p(one, other):
    """The share of all ways to deal the curves into two groups of these sizes that are at least as far apart."""
    curves = [*one, *other]
    sums = [sum(column) for column in zip(*curves)]
    count, rest = len(one), len(other)

    def apart(chosen):
        total = 0.0
        for column, whole in zip(zip(*(curves[i] for i in chosen)), sums):
            first = sum(column)
            total += (first / count - (whole - first) / rest) ** 2
        return total

    found = apart(range(count))
    deals = [apart(chosen) for chosen in itertools.combinations(range(len(curves)), count)]
    # The deal that was found is one of them, up to rounding.
    return sum(deal >= found * (1 - 1e-9) for deal in deals) / len(deals)


def compared(reference, group):
    """A group of curves beside the unlimited one."""
    return {
        "withinReference": spread([distance(*two) for two in itertools.combinations(reference, 2)]),
        "across": spread([distance(a, b) for a in group for b in reference]),
        "within": spread([distance(*two) for two in itertools.combinations(group, 2)]),
        "sameSeed": [distance(a, b) for a, b in zip(reference, group)],
        "meanCurves": distance(mean_curve(reference), mean_curve(group)),
        "p": permutation_p(reference, group),
    }


class Runs:
    def __init__(self, given):
        self.given = given

    def start(self, seed, limit, lost):
        report = os.path.join(tempfile.mkdtemp(), "steps.json")
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        environment["PYTHONPATH"] = ""
        if limit is not None:
            environment["PYTHONPATH"] = os.path.join(self.given.plimsoll, "_auto")
            environment["PLIMSOLL_MEMORY_BYTES"] = str(limit)
        words = ["bert", "--dropout", "0.1", "--batch", "64", "--steps", str(self.given.steps)]
        words += ["--seed", str(seed), "--lost", lost, *(["--tiny"] if self.given.tiny else [])]
        program = os.path.join(HERE, "programs", "hugging_face.py")
        process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "observe.py"), report, program, *words],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        process.stdin.write("go\n")
        process.stdin.flush()
        return seed, process, report

    def group(self, limit=None, lost="0"):
        """The runs of all seeds, some at once."""
        began, waiting, done = time.time(), list(range(self.given.seeds)), []
        while waiting:
            turn, waiting = waiting[: self.given.at_once], waiting[self.given.at_once :]
            started = [self.start(seed, limit, lost) for seed in turn]
            done += [self.ended(*one) for one in started]
        seconds = time.time() - began
        return {"limitBytes": limit, "lost": int(lost), "seconds": seconds, "runs": done}

    def ended(self, seed, process, report):
        printed, said = process.communicate()
        answers = [line for line in printed.splitlines() if line.startswith("ANSWER ")]
        if process.returncode != 0 or not answers:
            sys.exit(f"seed {seed} ended with {process.returncode}: {said[-1500:]}")
        answer = json.loads(answers[-1][7:])
        with open(report, encoding="utf-8") as file:
            steps = json.load(file)["steps"]
        return {
            "seed": seed,
            "losses": answer["losses"],
            "seconds": answer["seconds"],
            "peakReservedBytes": answer.get("peakReservedBytes"),
            "steps": steps,
        }


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("plimsoll")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--tiny", action="store_true")
    return parser.parse_args()


def save(output, found):
    with open(f"{output}.new", "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
    os.replace(f"{output}.new", output)


def shown(name, group, found):
    print(
        f"{name}: {group['seconds']:.0f} s; unlimited pairs {found['withinReference']['median']:.4f} (95 % up to "
        f"{found['withinReference']['percentile95']:.4f}), across {found['across']['median']:.4f} "
        f"({found['across']['percentile95']:.4f}), within {found['within']['median']:.4f} "
        f"({found['within']['percentile95']:.4f}); same seed {found['sameSeed'][0]:.4f}; mean curves "
        f"{found['meanCurves']:.4f} apart, p {found['p']:.4f}",
        flush=True,
    )


def main():
    given = parsed()
    runs, found = Runs(given), {}

    def curves(name):
        return [run["losses"] for run in found[name]["runs"]]

    def add(name, **how):
        found[name] = runs.group(**how)
        if name != "unlimited":
            found[name]["beside"] = compared(curves("unlimited"), curves(name))
            shown(name, found[name], found[name]["beside"])
        save(given.output, found)

    add("unlimited")
    peaks = [run["peakReservedBytes"] or 0 for run in found["unlimited"]["runs"]]
    # Without a card nothing is limited: Plimsoll is there and has nothing to do.
    add("limited", limit=given.limit or max(peaks) // 3 or 2**43)
    add("control", lost=LOST)
    wrong = []
    if found["limited"]["beside"]["p"] < LEAST_P:
        wrong.append("limited runs differ by more than seeds do")
    if found["control"]["beside"]["p"] >= LEAST_P:
        wrong.append("lost samples are not told apart from other seeds")
    recovered = [
        run["seed"]
        for run in found["limited"]["runs"]
        if any(step.get("recoveries") for step in run["steps"])
    ]
    if len(recovered) < given.seeds and not given.tiny:
        wrong.append(f"only seeds {recovered} were split")
    found["wrong"] = wrong
    save(given.output, found)
    print("; ".join(wrong) or "within the noise of seeds", flush=True)
    sys.exit(1 if wrong and not given.tiny else 0)


if __name__ == "__main__":
    main()
