"""Fits which kernels cuDNN runs of those that it leaves out of its ranking without a device.

    .venv/bin/python python/tools/fit_kernels.py convolutions [--output FILE.json.gz]
    .venv/bin/python python/tools/fit_kernels.py transforms [--output FILE.json.gz]

Decision trees are grown for each kind of kernel from what cuDNN ranked first on an H200 (bench/truth), one after the
other, each of what those before it got wrong; their sum is how likely the kernel is taken. Prints how many layers
forests get right that saw no layer with their channel counts, beside the scores of the file that ships
(python/plimsoll_trace/kernels/fitted), and whether the trees are the same. The file that ships is written by
`--output`; no other command changes it.

The fit of one cuDNN is the same on every machine without a GPU's driver. With a driver, cuDNN builds some kernels
that it cannot build without, and so ranks others first for 92 of the 20,116 gradients of weights in half precision.
"""

import argparse
import ctypes
import gzip
import hashlib
import json
import lzma
import multiprocessing
import os
import sys
from math import log, log2

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

import numpy as np
import torch

from plimsoll_trace.kernels import cudnn, unranked
from plimsoll_trace.kernels.convolution import Problem
from plimsoll_trace.kernels.fitted import models

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
KINDS = ("forward", "grad_input", "grad_weight")
# cuDNN's numbers for the kernels that are left out without a device.
PRODUCTS = {"forward": 58, "grad_input": 63, "grad_weight": 62}
WINOGRAD = {"grad_weight": 17, "grad_input": 7}
TRANSFORMS = {"forward": 3, "grad_input": 50, "grad_weight": 18}
INPUTS = {
    "convolutions": (
        "bench/truth/convolutions.json.xz",
        "bench/truth/convolutions-more.json.xz",
        "bench/truth/ranked-convolutions.json.xz",
        "bench/truth/probed-convolutions.json.xz",
    ),
    "transforms": ("bench/truth/transforms.json.xz",),
}
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
# Surer chances are called sure in the scores.
SURE = 0.45


def measured(path):
    with lzma.open(os.path.join(ROOT, path)) as file:
        return json.load(file)


def problem_of(numbers, dtype):
    x, w, stride, padding, dilation, transposed, output_padding, groups = numbers
    x, w = (torch.empty(shape, dtype=dtype, device="meta") for shape in (x, w))
    y = torch.ops.aten.convolution(
        x, w, None, stride, padding, dilation, bool(transposed), output_padding, groups
    )
    return Problem(x, w, y, stride, padding, dilation, bool(transposed), groups)


def of_convolutions(every=1):
    """(forest, features, whether the kernel was taken, how much that matters) of each layer and gradient."""
    for path in INPUTS["convolutions"]:
        truth = measured(path)
        for number, dtype, *found in truth["rows"][::every]:
            problem = problem_of(truth["problems"][number], DTYPES[dtype])
            for which, engine in zip(KINDS, found[3:]):
                if engine is not None and not problem.transposed:
                    yield from _left_out(problem, which, engine)


def _left_out(problem, which, engine):
    if unranked.is_product(problem):
        name, left_out, size = which, PRODUCTS[which], unranked.product(problem, which)
    elif unranked.could_be_winograd(problem, which):
        name = "winograd" if which == "grad_weight" else "winograd_input"
        left_out, size = WINOGRAD[which], unranked.winograd(problem, which)
    else:
        return
    choice = cudnn.library().choose(problem, which)
    # A wrong answer that is off by gigabytes is worse than many that are off by little.
    stake = abs((choice.workspace if choice else 0) - size)
    features = unranked.features(problem, choice)
    name = f"{name}/{problem.dtype.itemsize}"
    yield name, features, engine == left_out, 1 + log2(1 + stake / 2**20)


def of_transforms(every=1):
    """The same of layers in float32. A share of the layers with other kernels was kept: each stands for several."""
    (path,) = INPUTS["transforms"]
    truth = measured(path)
    for images, inputs, outputs, side, width, which, engine in truth["rows"][::every]:
        x, y = (torch.empty(images, n, side, side, device="meta") for n in (inputs, outputs))
        w = torch.empty(outputs, inputs, width, width, device="meta")
        problem = Problem(x, w, y, [1, 1], [width // 2] * 2, [1, 1], False, 1)
        features = cudnn.features(problem, cudnn.library().choose(problem, which))
        taken = engine == TRANSFORMS[which]
        yield which, features, taken, 1 if taken else 1 / truth["shareOfOthers"][which]


SAMPLES = {"convolutions": of_convolutions, "transforms": of_transforms}


def samples(table, every=1):
    """The features' names, and for each forest arrays of their values, of the kernels taken, and of the weights."""
    found, names = {}, []
    for forest, features, taken, weight in SAMPLES[table](every):
        names = list(features)
        found.setdefault(forest, []).append((list(features.values()), taken, weight))
    return names, {forest: columns(rows) for forest, rows in sorted(found.items())}


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
    return float(low)


def as_told(tree, bins):
    """A tree as files hold it: its questions with thresholds instead of places, its numbers times 100."""
    if isinstance(tree, tuple):
        feature, place, low, high = tree
        return [feature, bins.threshold(feature, place), as_told(low, bins), as_told(high, bins)]
    return round(100 * tree)


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


def fit(values, taken, weights, trees=TREES):
    """Each tree sees a draw of the layers, and what the trees before it say of them."""
    random = np.random.default_rng(1)
    bins = Bins(values)
    share = np.average(taken, weights=weights)
    share = min(max(share, 0.001), 0.999)
    first = log(share / (1 - share))
    odds = np.full(len(taken), first)
    told = [as_told(first, bins)]
    for _ in range(trees):
        likely = 1 / (1 + np.exp(-odds))
        slopes, bends = (
            (likely - taken) * weights,
            np.maximum(likely * (1 - likely), 1e-4) * weights,
        )
        drawn = np.flatnonzero(random.random(len(taken)) < SHARE_OF_LAYERS)
        tree = grow(bins.places[drawn], slopes[drawn], bends[drawn], random)
        odds += answers(tree, bins.places)
        told.append(as_told(tree, bins))
    return told


def digest(fitted):
    """Of the trees of all forests, by name."""
    return hashlib.sha256(json.dumps(fitted, sort_keys=True).encode()).hexdigest()


def folds_of(names, values):
    columns = [values[:, names.index(name)].astype(int) for name in ("inputs", "outputs")]
    inputs, outputs = np.sort(columns, axis=0)
    return (inputs * 31 + outputs * 17) % FOLDS


def left_out_chances(names, values, taken, weights, fold):
    """Where the layers of a fold are, and their chances by a forest that saw none with their channel counts."""
    unseen = folds_of(names, values) == fold
    trees = fit(values[~unseen], taken[~unseen], weights[~unseen])
    return unseen, np.array([models.chance(trees, row) for row in values[unseen].tolist()])


def percent(part, whole):
    return round(float(100 * part / whole), 1)


def score(table, taken, weights, chances):
    """How good the chances of layers are that were left out."""
    found = chances > 0.5
    told = {"layers": len(taken)}
    if table == "transforms":
        all_taken, right = (weights * taken).sum(), (weights * taken)[found].sum()
        told["found"] = percent(right, all_taken)
        told["right of found"] = percent(right, weights[found].sum())
    else:
        sure, right = np.abs(chances - 0.5) > SURE, found == taken
        told["right"] = percent(right.sum(), len(right))
        told["sure"] = int(sure.sum())
        told["right of sure"] = percent(right[sure].sum(), sure.sum())
    return told


def _work(task):
    names, data, fold = task
    return fit(*data) if fold is None else left_out_chances(names, *data, fold)


def fit_all(table):
    """The header of the file, and the trees by forest."""
    names, found = samples(table)
    tasks = [(name, fold) for fold in (None, *range(FOLDS)) for name in found]
    with multiprocessing.get_context("fork").Pool() as pool:
        work = [(names, found[name], fold) for name, fold in tasks]
        results = dict(zip(tasks, pool.imap(_work, work)))
    fitted = {name: results[name, None] for name in found}
    scores = []
    for name, (_, taken, weights) in found.items():
        chances = np.zeros(len(taken))
        for fold in range(FOLDS):
            unseen, those = results[name, fold]
            chances[unseen] = those
        scores.append({"name": name, "leftOut": score(table, taken, weights, chances)})
    return {**ground(table), "features": names, "forests": scores, "digest": digest(fitted)}, fitted


def ground(table):
    """What the fit stands on."""
    truths = [measured(path) for path in INPUTS[table]]
    about = {key: one_of({truth[key] for truth in truths}) for key in ("gpu", "torch", "cudnn")}
    return {
        "format": models.FORESTS_FORMAT,
        "card": about["gpu"],
        "torch": about["torch"],
        "cudnn": ".".join(map(str, version_parts(about["cudnn"]))),
        "inputs": [{"file": path, "sha256": sha256_of(path)} for path in INPUTS[table]],
        "madeBy": f"python/tools/fit_kernels.py {table}",
        "reproducible": "exactly, on machines without a GPU's driver",
        "leftOut": "percent of layers, by forests that saw none with their channel counts; sure: 5 or 95",
    }


def one_of(values):
    (value,) = values
    return value


def version_parts(number):
    return number // 10_000, number // 100 % 100, number % 100


def sha256_of(path):
    with open(os.path.join(ROOT, path), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def packed(header, fitted):
    """The file: the header in the first line, then a line for each forest."""
    lines = [header, *(fitted[forest["name"]] for forest in header["forests"])]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    return gzip.compress(text.encode(), 9, mtime=0)


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description="Fits which kernels cuDNN runs.")
    parser.add_argument("table", choices=INPUTS)
    parser.add_argument("--output", help="write the fitted table to this file")
    options = parser.parse_args()
    if cudnn.library() is None:
        sys.exit("cuDNN 9.8 or newer is missing: install a PyTorch with CUDA")
    if has_driver():
        print("This machine has a GPU's driver: some forests will differ.", file=sys.stderr)
    header, fitted = fit_all(options.table)
    if options.output:
        with open(options.output, "wb") as file:
            file.write(packed(header, fitted))
    shipped = models.Table(models.shipped(f"{options.table}.json.gz"))
    before = {forest["name"]: forest.get("leftOut") for forest in shipped.about["forests"]}
    for forest in header["forests"]:
        name = forest["name"]
        same = fitted[name] == shipped.trees(name)
        print(f"{name}: {'the trees that ship' if same else 'other trees than those that ship'}")
        print(f"  layers left out {json.dumps(forest['leftOut'])}")
        if not same:
            print(f"  of the shipped  {json.dumps(before.get(name))}")
    print(f"digest {header['digest']}, shipped {shipped.about.get('digest')}")


if __name__ == "__main__":
    main()
