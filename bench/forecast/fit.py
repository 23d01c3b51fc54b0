"""Fits the table of probabilities from the evidence that dump-evidence.mjs wrote.

Usage: fit.py EVIDENCE src/watch/diagnosis/probability-table.json

Small gradient-boosted trees over bins, in numpy: three for "within 15 s, 60 s, 5 min" (log loss, then evened out by
programs that the trees had not seen).
"""

import json
import sys

import numpy as np

BINS = 32
HORIZONS = (15, 60, 300)
ROWS_A_SERIES = 22
RECORDED_WEIGHT = 2.0

random = np.random.default_rng(1)


def grown(bins, edges, gradient, hessian, depth, pull):
    """The splits of one tree, by node as in a heap, and the node that each row ends in."""
    node = np.zeros(len(bins), np.int32)
    tree, open_nodes = {}, {0}
    columns = random.choice(bins.shape[1], int(0.6 * bins.shape[1]), replace=False)
    for level in range(depth):
        first, count = 2**level - 1, 2**level
        inside = np.isin(node, list(open_nodes))
        place, g, h = node[inside] - first, gradient[inside], hessian[inside]
        all_g, all_h = np.bincount(place, g, count), np.bincount(place, h, count)
        best = [(1e-6, None)] * count
        for column in columns:
            key = place * BINS + bins[inside, column]
            low_g = np.bincount(key, g, count * BINS).reshape(count, BINS).cumsum(1)
            low_h = np.bincount(key, h, count * BINS).reshape(count, BINS).cumsum(1)
            high_g, high_h = all_g[:, None] - low_g, all_h[:, None] - low_h
            gain = low_g**2 / (low_h + pull) + high_g**2 / (high_h + pull)
            gain -= (all_g**2 / (all_h + pull))[:, None]
            gain[(low_h < 10) | (high_h < 10)] = -1
            gain[:, len(edges[column]) :] = -1
            at = gain.argmax(1)
            for one in range(count):
                if gain[one, at[one]] > best[one][0]:
                    best[one] = (gain[one, at[one]], (int(column), int(at[one])))
        open_nodes = set()
        for one in range(count):
            if best[one][1] is None:
                continue
            here = first + one
            column, at = tree[here] = best[one][1]
            rows = np.where(node == here)[0]
            node[rows] = np.where(bins[rows, column] <= at, 2 * here + 1, 2 * here + 2)
            open_nodes |= {2 * here + 1, 2 * here + 2}
    return tree, node


def table_of(values):
    """The value of each node, by its number."""
    table = np.zeros(64)
    for here, value in values.items():
        table[here] = value
    return table


def chances(bins, edges, came, weight, trees=40, depth=4, rate=0.16, pull=40.0):
    share = (weight * came).sum() / weight.sum()
    base = float(np.log(share / (1 - share)))
    score, forest = np.full(len(came), base), []
    for _ in range(trees):
        likely = 1 / (1 + np.exp(-score))
        gradient = (likely - came) * weight
        hessian = np.maximum(likely * (1 - likely) * weight, 1e-6)
        tree, node = grown(bins, edges, gradient, hessian, depth, pull)
        values = {
            int(one): float(
                -rate * gradient[node == one].sum() / (hessian[node == one].sum() + pull)
            )
            for one in np.unique(node)
        }
        score += table_of(values)[node]
        forest.append((tree, values))
    return base, forest


def applied(model, bins):
    base, forest = model
    score = np.full(len(bins), base)
    for tree, values in forest:
        node = np.zeros(len(bins), np.int32)
        for here in sorted(tree):
            column, at = tree[here]
            rows = np.where(node == here)[0]
            node[rows] = np.where(bins[rows, column] <= at, 2 * here + 1, 2 * here + 2)
        score += table_of(values)[node]
    return score


def evened(score, came, weight):
    """Offset and slope of the score that make what was said come true, by Newton's method."""
    a, b = 0.0, 1.0
    for _ in range(30):
        likely = 1 / (1 + np.exp(-(a + b * score)))
        g = weight * (likely - came)
        h = np.maximum(weight * likely * (1 - likely), 1e-9)
        matrix = np.array([[h.sum(), (h * score).sum()], [(h * score).sum(), (h * score**2).sum()]])
        a, b = np.array([a, b]) - np.linalg.solve(matrix, [g.sum(), (g * score).sum()])
    return float(a), float(b)


def short(value):
    return float(f"{value:.4g}")


def flat(forest, edges, slope=1.0):
    """Each tree as [feature, threshold, where the branch above begins] a node; a leaf is [-1, value, 0]."""
    trees = []
    for tree, values in forest:
        nodes = []

        def walk(here, tree=tree, values=values, nodes=nodes):
            at = len(nodes)
            if here not in tree:
                nodes.extend([-1, short(slope * values.get(here, 0.0)), 0])
                return
            column, bin_ = tree[here]
            nodes.extend([column, short(edges[column][bin_]), 0])
            walk(2 * here + 1)
            nodes[at + 2] = len(nodes)
            walk(2 * here + 2)

        walk(0)
        trees.append(nodes)
    return trees


def main():
    evidence, out = sys.argv[1:]
    with open(f"{evidence}.json", encoding="utf-8") as file:
        told = json.load(file)
    rows = np.fromfile(evidence, np.float32).reshape(-1, told["width"])
    series = rows[:, 0].astype(int)
    count = np.bincount(series)
    rows = rows[random.random(len(rows)) < np.minimum(1, ROWS_A_SERIES / count[series])]
    series, left, after, goes_on = (rows[:, at] for at in (0, 2, 3, 4))
    series = series.astype(int)
    features = rows[:, 5:]
    recorded = np.array([one["group"] != "generated" for one in told["series"]])[series]
    weight = np.where(recorded, RECORDED_WEIGHT, 1.0)
    program = np.array([hash_of(one) for one in told["series"]])[series]
    edges = [
        np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1])) for column in features.T
    ]
    bins = np.stack(
        [np.searchsorted(edge, column) for edge, column in zip(edges, features.T)], 1
    ).astype(np.uint8)
    table = {
        "about": "Made by bench/forecast/fit.py; bench/truth/README.md says from which series.",
        "horizons": [],
    }
    for horizon in HORIZONS:
        came = ((left >= 0) & (left <= horizon)).astype(float)
        known = (left >= 0) | (after >= horizon) | (goes_on == 0)
        unseen = np.zeros(len(came))
        for fold in (0, 1):
            learn, check = known & (program == fold), known & (program != fold)
            model = chances(bins[learn], edges, came[learn], weight[learn])
            unseen[check] = applied(model, bins[check])
        a, b = evened(unseen[known], came[known], np.ones(int(known.sum())))
        base, forest = chances(bins[known], edges, came[known], weight[known])
        table["horizons"].append(
            {"withinSeconds": horizon, "base": short(a + b * base), "trees": flat(forest, edges, b)}
        )
        print(
            horizon,
            "rows",
            int(known.sum()),
            "offset",
            round(a, 3),
            "slope",
            round(b, 3),
            flush=True,
        )
    with open(out, "w", encoding="utf-8") as file:
        json.dump(table, file, separators=(",", ":"))
        file.write("\n")


def hash_of(one):
    """Which half a series is in, by its program."""
    return sum(map(ord, one["name"].rsplit("-", 1)[0])) % 2


if __name__ == "__main__":
    main()
