"""Fits which convolutions cuDNN runs as matrix products or by Winograd's transforms.

    .venv/bin/python bench/accuracy/fit_choices.py > python/plimsoll/tracing/kernels/fitted_choices.py

With a device cuDNN ranks these kernels too; without one it leaves them out. From what it ranked first on an
H200, decision trees are grown for each kind, one after the other, each of what those before it got wrong;
their sum is how likely the kernel is taken. Each comment in the result is a threefold check in which no two
folds share a pair of channel counts.
"""

import json
import lzma
import os
import sys
import textwrap
from math import log, log2

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
WINOGRAD = {"grad_weight": 17, "grad_input": 7}
MEASURED = (
    "truth/convolutions.json.xz",
    "results/convolutions-more.json.xz",
    "results/ranked-convolutions.json.xz",
    "results/probed-convolutions.json.xz",
)
TREES = 120
LEAVES = 24
FEWEST_IN_LEAF = 3
# Of what a tree says so much counts: many small steps are surer than few large ones.
STEP = 0.14
# As if each leaf had one layer more, of which nothing is known.
UNKNOWN = 1.0
# A tree sees so many of the layers, and a question so many of the features: trees that differ make a better sum.
SHARE_OF_LAYERS, SHARE_OF_FEATURES = 0.7, 0.4
# Thresholds that are tried for a feature.
BINS = 200
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
            product = choices.is_product(problem)
            known = product or choices.could_be_winograd(problem, which)
            if engine is None or problem.transposed or not known:
                continue
            choice = cudnn.library().choose(problem, which)
            values = choices.features(problem, choice)
            size = problem.dtype.itemsize
            other = choice.workspace if choice else 0
            if product:
                stake = abs(other - choices.product(problem, which))
                row = (values, engine == PRODUCTS[which], weight(stake))
                found.setdefault((which, size), []).append(row)
            else:
                kind = "winograd" if which == "grad_weight" else "winograd_input"
                stake = abs(other - choices.winograd(problem, which))
                row = (values, engine == WINOGRAD[which], weight(stake))
                found.setdefault((kind, size), []).append(row)
    return found


def weight(stake):
    """A wrong answer that is off by gigabytes is worse than many that are off by little."""
    return 1 + log2(1 + stake / 2**20)


def columns(rows):
    values, taken, weights = zip(*rows)
    weights = np.array(weights, float)
    return np.array(values, float), np.array(taken, float), weights / weights.mean()


class Bins:
    """Values of each feature as the number of the threshold that they do not pass."""

    def __init__(self, values):
        self.limits = [self._limits(np.unique(column), column) for column in values.T]
        places = [np.searchsorted(limits, column) for limits, column in zip(self.limits, values.T)]
        self.places = np.minimum(np.array(places).T, BINS - 1)

    @staticmethod
    def _limits(distinct, column):
        if len(distinct) <= BINS:
            return distinct
        return np.unique(np.quantile(column, np.linspace(0, 1, BINS), method="nearest"))

    def threshold(self, feature, place):
        limits = self.limits[feature]
        return shortest_between(limits[place], limits[min(place + 1, len(limits) - 1)])


def best_split(places, slopes, bends, features):
    """The question that gains most: gain, feature, and the last place below the threshold."""
    at = places[:, features] + np.arange(len(features)) * BINS
    size = len(features) * BINS

    def below(amounts):
        each = np.repeat(amounts, len(features))
        counted = np.bincount(at.ravel(), each, size)
        return counted.reshape(-1, BINS).cumsum(axis=1)

    slope, bend, count = below(slopes), below(bends), below(np.ones(len(slopes)))
    all_slope, all_bend = slopes.sum(), bends.sum()
    gain = slope**2 / (bend + UNKNOWN) + (all_slope - slope) ** 2 / (all_bend - bend + UNKNOWN)
    gain -= all_slope**2 / (all_bend + UNKNOWN)
    gain[(count < FEWEST_IN_LEAF) | (len(slopes) - count < FEWEST_IN_LEAF)] = 0
    where, place = np.unravel_index(gain.argmax(), gain.shape)
    return gain[where, place], int(features[where]), int(place)


def grow(places, slopes, bends, random):
    """Splits the leaf that gains most until there are enough leaves: (feature, place, low, high), or a number."""
    count = round(SHARE_OF_FEATURES * places.shape[1])

    def leaf(rows):
        features = random.choice(places.shape[1], count, replace=False)
        if len(rows) < 2 * FEWEST_IN_LEAF:
            return {"rows": rows, "split": (0, 0, 0)}
        return {
            "rows": rows,
            "split": best_split(places[rows], slopes[rows], bends[rows], features),
        }

    root = leaf(np.arange(len(slopes)))
    leaves = [root]
    while len(leaves) < LEAVES:
        widest = max(leaves, key=lambda one: one["split"][0])
        gain, feature, place = widest["split"]
        if gain < 1e-6:
            break
        is_low = places[widest["rows"], feature] <= place
        widest["halves"] = [leaf(widest["rows"][half]) for half in (is_low, ~is_low)]
        leaves = [one for one in leaves if one is not widest] + widest["halves"]

    def answer(node):
        if "halves" in node:
            return (*node["split"][1:], *map(answer, node["halves"]))
        rows = node["rows"]
        return -STEP * slopes[rows].sum() / (bends[rows].sum() + UNKNOWN)

    return answer(root)


def shortest_between(low, high):
    """The number with the fewest digits that is at least the one and less than the other."""
    for digits in range(1, 18):
        number = float(f"{(low + high) / 2:.{digits}g}")
        if low <= number < high:
            return number
    return low


def literal(tree, bins):
    """A tree in one line: a question is feature<threshold, then come the answers up to it and above it."""
    if isinstance(tree, tuple):
        feature, place, low, high = tree
        return f"{feature}<{bins.threshold(feature, place):.17g} {literal(low, bins)} {literal(high, bins)}"
    return str(round(100 * tree))


def answers(tree, places):
    """What a tree says of each layer."""
    found = np.zeros(len(places))
    rest = [(tree, np.arange(len(places)))]
    while rest:
        node, rows = rest.pop()
        if isinstance(node, tuple):
            feature, place, low, high = node
            is_low = places[rows, feature] <= place
            rest += [(low, rows[is_low]), (high, rows[~is_low])]
        else:
            found[rows] = node
    return found


def forest(values, taken, weights):
    """Each tree sees a draw of the layers, and what the trees before it say of them."""
    random = np.random.default_rng(1)
    bins = Bins(values)
    share = np.average(taken, weights=weights)
    share = min(max(share, 0.001), 0.999)
    first = log(share / (1 - share))
    odds = np.full(len(taken), first)
    trees = [literal(first, bins)]
    for _ in range(TREES):
        likely = 1 / (1 + np.exp(-odds))
        slopes, bends = (
            (likely - taken) * weights,
            np.maximum(likely * (1 - likely), 1e-4) * weights,
        )
        drawn = np.flatnonzero(random.random(len(taken)) < SHARE_OF_LAYERS)
        tree = grow(bins.places[drawn], slopes[drawn], bends[drawn], random)
        odds += answers(tree, bins.places)
        trees.append(literal(tree, bins))
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
        "A paragraph is a tree: feature<threshold, then what follows up to it, then what follows above it."
    )
    print(
        "The numbers that the trees end in add up to the logarithm of the odds of the kernel, times 100."
    )
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
