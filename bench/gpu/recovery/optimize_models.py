"""Peak memory, speed and final loss of plimsoll.optimize for three models, beside the plain run.

Usage: python3 bench/gpu/recovery/optimize_models.py [--output FILE]. Two seeds of the plain run tell the
noise: the optimized mean must not lie above the plain one by more than two seeds of one way differ. About six
minutes on an H200. Ends with exit code 1 when less than half of the memory is saved, or the loss is worse.
"""

from __future__ import annotations

import argparse
import json
import sys

from recovery import gib, part

MODELS = ("gpt2", "bert", "vit")
LEAST_SAVED = 0.5


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--output")
    given = options.parse_args()
    found = {}
    bad = 0
    print(f"{'':56} first    final loss, 2 seeds:                  means apart,")
    print(
        "model  peak plain  optimized    saved  step plain  optimized"
        "    loss     plain            optimized        seeds apart"
    )
    for name in MODELS:
        runs = {
            (way, seed): part("part_optimize.py", name, way, seed, limit=150)
            for way in ("plain", "optimized")
            for seed in (0, 1)
        }
        found[name] = {f"{way}-{seed}": result for (way, seed), result in runs.items()}
        if given.output:
            with open(given.output, "w", encoding="utf-8") as file:
                json.dump(found, file)
        wrong = [result for result in runs.values() if "error" in result]
        if wrong:
            print(f"{name}: FAILED: {wrong[0]['error']}")
            print(wrong[0].get("tail", ""), file=sys.stderr)
            bad += 1
            continue
        plain, ours = ([runs[way, seed] for seed in (0, 1)] for way in ("plain", "optimized"))
        # Without a GPU the peak is unknown; then only the walk through is shown.
        saved = 1 - ours[0]["peakBytes"] / plain[0]["peakBytes"] if plain[0]["peakBytes"] else None
        apart, noise = differences(plain, ours)
        print(
            f"{name:5}  {gib(plain[0]['peakBytes']):>10}  {gib(ours[0]['peakBytes']):>9}  "
            f"{'unknown' if saved is None else f'{100 * saved:4.1f} %':>7}  "
            f"{1000 * plain[0]['stepSeconds']:7.1f} ms  {1000 * ours[0]['stepSeconds']:6.1f} ms   "
            f"{plain[0]['firstLoss']:7.4f}  {plain[0]['finalLoss']:7.4f} {plain[1]['finalLoss']:7.4f}    "
            f"{ours[0]['finalLoss']:7.4f} {ours[1]['finalLoss']:7.4f}   {apart:+.4f}, {noise:.4f}",
            flush=True,
        )
        bad += (saved is not None and saved < LEAST_SAVED) or apart > noise
    return 1 if bad else 0


def differences(plain, ours):
    """How far the optimized mean lies above the plain one, and how far two seeds of one way lie apart."""
    ends = [[run["finalLoss"] for run in runs] for runs in (plain, ours)]
    means = [sum(end) / len(end) for end in ends]
    return means[1] - means[0], max(abs(a - b) for a, b in ends)


if __name__ == "__main__":
    sys.exit(main())
