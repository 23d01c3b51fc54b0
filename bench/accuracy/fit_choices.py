"""Fits which convolutions cuDNN runs as matrix products or by Winograd's transforms.

    .venv/bin/python bench/accuracy/fit_choices.py > python/plimsoll/tracing/kernels/fitted_choices.py

With a device cuDNN ranks these kernels too; without one it leaves them out. From what it ranked
first on an H200, some decision trees are grown for each kind; their average is how likely it is taken.
Each comment in the result is a threefold check in which no two folds share a pair of channel counts.
"""

import json
import lzma
import os
import sys
import textwrap
from math import log2

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

import numpy as np
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
TREES = 8
MAX_LEAVES = 150
FEWEST_IN_LEAF = 2
# Of all features, so many are looked at for a question: trees that differ make a better average.
FEATURES_FOR_A_QUESTION = 12
# Layers with the same pair of channel counts are in one fold.
FOLDS = 3


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


def columns(rows):
    values, taken, weights = zip(*rows)
    return np.array(values, float), np.array(taken, float), np.array(weights, float)


def best_split(values, taken, weights, features):
    """The question that leaves the purest halves: gain, feature, and the values beside the threshold."""
    best = (1e-9, None, None, None)
    if len(taken) < 2 * FEWEST_IN_LEAF or taken.min() == taken.max():
        return best
    whole, all_taken = weights.sum(), (weights * taken).sum()
    before = all_taken * (whole - all_taken) / whole
    for feature in features:
        order = np.argsort(values[:, feature], kind="stable")
        ordered = values[order, feature]
        below = np.cumsum(weights[order])[:-1]
        taken_below = np.cumsum((weights * taken)[order])[:-1]
        above, taken_above = whole - below, all_taken - taken_below
        gain = before - taken_below * (below - taken_below) / below
        gain -= taken_above * (above - taken_above) / above
        at = np.arange(1, len(taken))
        few = (at < FEWEST_IN_LEAF) | (len(taken) - at < FEWEST_IN_LEAF)
        gain[few | (ordered[1:] == ordered[:-1])] = 0
        where = int(gain.argmax())
        if gain[where] > best[0]:
            best = (gain[where], feature, ordered[where], ordered[where + 1])
    return best


def grow(values, taken, weights, random):
    """Splits the leaf that gains most until there are enough leaves."""

    def leaf(rows):
        features = random.choice(values.shape[1], FEATURES_FOR_A_QUESTION, replace=False)
        return {
            "rows": rows,
            "split": best_split(values[rows], taken[rows], weights[rows], features),
        }

    root = leaf(np.arange(len(taken)))
    leaves = [root]
    while len(leaves) < MAX_LEAVES:
        widest = max(leaves, key=lambda one: one["split"][0])
        _, feature, low, high = widest["split"]
        if feature is None:
            break
        threshold = shortest_between(low, high)
        is_low = values[widest["rows"], feature] <= threshold
        widest["question"] = (feature, threshold)
        widest["halves"] = [leaf(widest["rows"][half]) for half in (is_low, ~is_low)]
        leaves = [one for one in leaves if one is not widest] + widest["halves"]
    return literal(root, taken, weights)


def shortest_between(low, high):
    """The number with the fewest digits that is at least the one and less than the other."""
    for digits in range(1, 18):
        number = float(f"{(low + high) / 2:.{digits}g}")
        if low <= number < high:
            return number
    return low


def literal(node, taken, weights):
    """A tree in one line: a question is feature<threshold, then come the answers up to it and above it."""
    if "question" in node:
        feature, threshold = node["question"]
        halves = " ".join(literal(half, taken, weights) for half in node["halves"])
        return f"{feature}<{threshold:.17g} {halves}"
    rows = node["rows"]
    # One layer of average weight is added, half for each answer: a leaf of few layers is never sure.
    more = weights[rows].mean() / 2
    share = ((weights * taken)[rows].sum() + more) / (weights[rows].sum() + 2 * more)
    return str(round(100 * share))


def forest(values, taken, weights):
    """Each tree sees a draw of the layers; their average says how likely the kernel is."""
    random = np.random.default_rng(1)
    trees = []
    for _ in range(TREES):
        drawn = random.integers(0, len(taken), len(taken))
        trees.append(grow(values[drawn], taken[drawn], weights[drawn], random))
    return trees


def chances(trees, values):
    parsed = choices.parsed("\n\n".join(trees))
    return np.array([choices.chance(parsed, row) for row in values])


def fold_of(row):
    inputs, outputs = sorted((int(row[1]), int(row[2])))
    return (inputs * 31 + outputs * 17) % FOLDS


def held_out(values, taken, weights):
    """Chances of layers by forests that saw no layer with their channel counts."""
    folds = np.array([fold_of(row) for row in values])
    found = np.zeros(len(taken))
    for fold in range(FOLDS):
        seen, unseen = folds != fold, folds == fold
        trees = forest(values[seen], taken[seen], weights[seen])
        found[unseen] = chances(trees, values[unseen])
    return found


def main():
    print(
        '"""Decision trees over what is known of a convolution without a device; made by bench/accuracy/fit_choices.py.'
    )
    print()
    print(
        "A paragraph is a tree: feature<threshold, then what follows up to it, then what follows above it;"
    )
    print("a number alone is how likely the kernel is, in percent.")
    print('"""')
    print()
    print("FORESTS = {")
    for key, rows in sorted(samples().items()):
        data = columns(rows)
        taken = data[1]
        unseen = held_out(*data)
        sure = np.abs(unseen - 0.5) > 0.45
        right = (unseen > 0.5) == taken
        print(
            f"    # Layers that were left out: {100 * right.mean():.1f} of 100 are as measured;"
            f" of {sure.sum()} sure ones among {len(rows)} {100 * right[sure].mean():.1f}."
        )
        print(f'    ("{key[0]}", {key[1]}): """')
        for tree in forest(*data):
            print(textwrap.fill(tree, 100))
            print()
        print('""",')
    print("}")


if __name__ == "__main__":
    main()
