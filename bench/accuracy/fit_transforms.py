"""Fits which convolutions cuDNN runs by Fourier transform, in float32, without stride.

    .venv/bin/python bench/accuracy/fit_transforms.py > python/plimsoll/tracing/kernels/transforms/fitted.py

With a device cuDNN ranks these kernels too; without one it leaves them out. From what it ranked first on an H200
(bench/gpu/transforms.py), some decision trees are grown for each kind. Of the layers that take another kernel a
share is kept, and each of those stands for several. The comments are checks as in fit_choices.py.
"""

import json
import lzma
import os
import textwrap

import fit_choices
import torch

from plimsoll.tracing.kernels import cudnn
from plimsoll.tracing.kernels.convolution import Problem
from plimsoll.tracing.kernels.transforms.likely import features

MEASURED = os.path.join(fit_choices.ROOT, "bench", "results", "transforms.json.xz")
TRANSFORMS = {"forward": 3, "grad_input": 50, "grad_weight": 18}


def problem_of(images, inputs, outputs, side, width):
    x, y = (torch.empty(images, n, side, side, device="meta") for n in (inputs, outputs))
    w = torch.empty(outputs, inputs, width, width, device="meta")
    return Problem(x, w, y, [1, 1], [width // 2] * 2, [1, 1], False, 1)


def samples():
    with lzma.open(MEASURED) as file:
        measured = json.load(file)
    found = {}
    for *shape, which, engine in measured["rows"]:
        problem = problem_of(*shape)
        values = features(problem, cudnn.library().choose(problem, which))
        taken = engine == TRANSFORMS[which]
        row = (values, taken, 1 if taken else 1 / measured["shareOfOthers"][which])
        found.setdefault(which, []).append(row)
    return found


def main():
    print('"""Decision trees as in fitted_choices.py; made by bench/accuracy/fit_transforms.py."""')
    print()
    print("FORESTS = {")
    for which, rows in sorted(samples().items()):
        values, taken, weights = fit_choices.columns(rows)
        unseen = fit_choices.held_out(values, taken, weights) > 0.5
        named, right = weights[unseen].sum(), (weights * taken)[unseen].sum()
        print(
            f"    # Layers that were left out: {100 * right / (weights * taken).sum():.0f} of 100 transforms are"
            f" found; of 100 that are named {100 * right / named:.0f} are ones."
        )
        print(f'    "{which}": """')
        for tree in fit_choices.forest(values, taken, weights):
            print(textwrap.fill(tree, 100))
            print()
        print('""",')
    print("}")


if __name__ == "__main__":
    main()
