"""Fits which convolutions cuDNN runs as matrix products or by Winograd's transforms.

    .venv/bin/python bench/accuracy/fit_choices.py > python/plimsoll/tracing/kernels/fitted_choices.py

With a device cuDNN ranks these kernels too; without one it leaves them out. From what it ranked
first on an H200, one small decision tree is grown for each kind. With 64 leaves 91 to 97 of 100 are right
in a threefold check in which no two folds share a pair of channel counts; more leaves were no better.
"""

import json
import lzma
import os
import sys
from math import log2
from pprint import pformat

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

import torch

from plimsoll.tracing.kernels import choices, cudnn
from plimsoll.tracing.kernels.convolution import Problem

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
KINDS = ("forward", "grad_input", "grad_weight")
# cuDNN's numbers for the kernels that are left out without a device.
PRODUCTS = {"forward": 58, "grad_input": 63, "grad_weight": 62}
WINOGRAD = 17
MEASURED = (
    "truth/convolutions.json.xz",
    "results/convolutions-more.json.xz",
    "results/ranked-convolutions.json.xz",
)
MAX_LEAVES = 64
FEWEST_IN_LEAF = 3


def problem_of(numbers, dtype):
    x, w, stride, padding, dilation, transposed, output_padding, groups = numbers
    x, w = (torch.empty(shape, dtype=dtype, device="meta") for shape in (x, w))
    y = torch.ops.aten.convolution(
        x, w, None, stride, padding, dilation, bool(transposed), output_padding, groups
    )
    return Problem(x, w, y, stride, padding, dilation, bool(transposed), groups)


def measured_rows():
    for path in MEASURED:
        with lzma.open(os.path.join(ROOT, "bench", path)) as file:
            truth = json.load(file)
        for number, dtype, *measured in truth["rows"]:
            yield problem_of(truth["problems"][number], DTYPES[dtype]), measured


def samples():
    """For each tree: what is known without a device, whether the kernel was taken, and how much that matters."""
    found = {}
    for problem, measured in measured_rows():
        for which, engine in zip(KINDS, measured[3:]):
            if engine is None or problem.transposed:
                continue
            choice = cudnn.library().choose(problem, which)
            values = choices.features(problem, choice)
            size = problem.dtype.itemsize
            other = choice.workspace if choice else 0
            if choices.is_product(problem):
                stake = abs(other - choices.product(problem, which))
                row = (values, engine == PRODUCTS[which], weight(stake))
                found.setdefault((which, size), []).append(row)
            elif choices.could_be_winograd(problem, which):
                row = (values, engine == WINOGRAD, weight(abs(other - choices.winograd(problem))))
                found.setdefault(("winograd", size), []).append(row)
    return found


def weight(stake):
    """A wrong answer that is off by gigabytes is worse than many that are off by little."""
    return 1 + log2(1 + stake / 2**20)


def impurity(taken, whole):
    return taken * (whole - taken) / whole if whole else 0


def weigh(rows):
    return sum(w for _, answer, w in rows if answer), sum(w for *_, w in rows)


def best_split(rows):
    """The question that leaves the purest halves: gain, feature, threshold."""
    best = (0, None, None)
    taken, whole = weigh(rows)
    for feature in range(len(rows[0][0])):
        ordered = sorted(rows, key=lambda row: row[0][feature])
        taken_below = below = 0
        for at in range(1, len(ordered)):
            values, answer, w = ordered[at - 1]
            below += w
            taken_below += w * answer
            low, high = values[feature], ordered[at][0][feature]
            if low == high or at < FEWEST_IN_LEAF or len(ordered) - at < FEWEST_IN_LEAF:
                continue
            halves = impurity(taken_below, below) + impurity(taken - taken_below, whole - below)
            gain = impurity(taken, whole) - halves
            if gain > best[0] + 1e-9:
                best = (gain, feature, (low + high) / 2)
    return best


def grow(rows):
    """Splits the leaf that gains most until there are enough leaves."""
    leaves = [{"rows": rows, "split": best_split(rows)}]
    root = leaves[0]
    while len(leaves) < MAX_LEAVES:
        leaf = max(leaves, key=lambda one: one["split"][0])
        _, feature, threshold = leaf["split"]
        if feature is None:
            break
        halves = ([], [])
        for row in leaf["rows"]:
            halves[row[0][feature] > threshold].append(row)
        leaf["halves"] = [{"rows": half, "split": best_split(half)} for half in halves]
        leaves = [one for one in leaves if one is not leaf] + leaf["halves"]
    return root


def literal(node):
    if "halves" not in node:
        taken, whole = weigh(node["rows"])
        return taken * 2 > whole
    _, feature, threshold = node["split"]
    low, high = map(literal, node["halves"])
    if low == high and isinstance(low, bool):
        return low
    number = round(threshold, 3) if threshold < 100 else round(threshold)
    return (choices.FEATURES[feature], number, low, high)


def main():
    print(
        '"""Decision trees over what is known of a convolution without a device; made by bench/accuracy/fit_choices.py.'
    )
    print()
    print("A branch is (feature, threshold, answer up to it, answer above it).")
    print('"""')
    print()
    print("TREES = {")
    for key, rows in sorted(samples().items()):
        tree = literal(grow(rows))
        right = sum(choices.decide(tree, values) == answer for values, answer, _ in rows)
        print(f"    # {right} of {len(rows)} are as measured.")
        text = "    {!r}: {},".format(
            key, pformat(tree, indent=1, width=104).replace("\n", "\n    ")
        )
        print(text.replace("'", '"'))
    print("}")


if __name__ == "__main__":
    main()
