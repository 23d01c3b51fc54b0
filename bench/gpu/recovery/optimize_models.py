"""Peak memory, speed and final loss of plimsoll.optimize for three models, beside the plain run.

Usage: python3 bench/gpu/recovery/optimize_models.py [--output FILE]. Two seeds of the plain run tell the
noise that the optimized run must stay within. About four minutes on an H200.
"""

from __future__ import annotations

import argparse
import json
import sys

from recovery import gib, part

MODELS = ("gpt2", "bert", "vit")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--output")
    given = options.parse_args()
    found = {}
    print("model  peak plain  optimized  saved   step plain  optimized   final loss plain (2 seeds)  optimized (2 seeds)")
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
            continue
        plain, other = runs["plain", 0], runs["plain", 1]
        ours, again = runs["optimized", 0], runs["optimized", 1]
        saved = 1 - ours["peakBytes"] / plain["peakBytes"] if plain["peakBytes"] else 0.0
        print(
            f"{name:5}  {gib(plain['peakBytes']):>10}  {gib(ours['peakBytes']):>9}  {100 * saved:4.1f} %  "
            f"{1000 * plain['stepSeconds']:7.1f} ms  {1000 * ours['stepSeconds']:6.1f} ms   "
            f"{plain['finalLoss']:.4f} {other['finalLoss']:.4f}               "
            f"{ours['finalLoss']:.4f} {again['finalLoss']:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
