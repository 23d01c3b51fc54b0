"""Which kernels cuDNN ranks for convolutions with the GPU at hand, and which without one.

    python3 bench/gpu/rankings.py SHAPES.json OUTPUT_FOLDER [--seconds 100] [--processes 15]

Nothing is computed: cuDNN is asked for its ranking and for the workspace of each plan, with the device and
without. SHAPES.json has layers for one image; batch, width and size are varied at random around them. Each
process writes rows of: the problem, type, layout, kind, then [kernel, workspace] of the first plan with the
device, [kernel, workspace, knobs] without, and for a share of them all kernels that `cudnn.benchmark` tries
with the device and without, with the most bytes each asks for.
"""

import argparse
import json
import lzma
import os
import random
import subprocess
import sys
import time

import convolutions
import torch

from plimsoll_trace.gpu import H200, cudnn_properties
from plimsoll_trace.kernels import cudnn_library
from plimsoll_trace.kernels.convolution import Problem

BATCHES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 200, 256)
KINDS = ("forward", "grad_input", "grad_weight")
TYPES = (torch.float32, torch.bfloat16)
MAX_VALUES = 2**31
LISTED_SHARE = 0.25


def varied(shape, draw):
    """Another batch; in two of five cases other channel counts, in one of three another size."""
    x, w, *rest = json.loads(json.dumps(shape))
    groups, transposed = rest[5], rest[3]
    if groups == 1 and draw.random() < 0.4:
        step = draw.choice((1, 4, 8, 8, 16, 32))
        for place in (0, 1):
            if w[place] > 4:
                w[place] = max(step, round(w[place] * draw.uniform(0.5, 1.6) / step) * step)
        x[0] = w[0] if transposed else w[1]
    if draw.random() < 0.33:
        scale = draw.uniform(0.5, 1.5)
        x[1:] = [max(k, round(n * scale)) for n, k in zip(x[1:], w[2:])]
    return [[draw.choice(BATCHES), *x], w, *rest]


def problem_of(numbers, dtype, layout):
    x, w, stride, padding, dilation, transposed, output_padding, groups = numbers
    x, w = (torch.empty(shape, dtype=dtype, device="meta") for shape in (x, w))
    if layout == "nhwc":
        x, w = (t.to(memory_format=torch.channels_last) for t in (x, w))
    args = (stride, padding, dilation, bool(transposed), output_padding, groups)
    y = torch.ops.aten.convolution(x, w, None, *args)
    if max(x.numel(), y.numel()) > MAX_VALUES:
        raise ValueError("too large")
    return Problem(x, w, y, stride, padding, dilation, bool(transposed), groups)


def listed(library, problem, which):
    most = {}
    with library._closing():
        for plan in library._plans(problem, which, (0, 2), 128):
            most[plan.engine] = max(most.get(plan.engine, 0), plan.workspace)
    return most


def work(options):
    draw = random.Random(options.seed)
    with open(options.shapes) as file:
        shapes = json.load(file)
    without = cudnn_library.Cudnn(cudnn_properties(H200))
    on_card = convolutions.OnDevice() if torch.cuda.is_available() else without
    rows, end = [], time.monotonic() + options.seconds
    while time.monotonic() < end:
        numbers = varied(draw.choice(shapes), draw)
        layout = "nhwc" if len(numbers[0]) == 4 and draw.random() < 0.1 else "nchw"
        for dtype in TYPES:
            try:
                problem = problem_of(numbers, dtype, layout)
            except (ValueError, RuntimeError):
                break
            if problem.depthwise:
                break
            for which in KINDS:
                first, second = (one.choose(problem, which) for one in (on_card, without))
                row = [numbers, str(dtype)[6:], layout, which]
                row.append(first and [first.engine, first.workspace])
                row.append(second and [second.engine, second.workspace, second.knobs])
                if draw.random() < LISTED_SHARE:
                    row += [listed(one, problem, which) for one in (on_card, without)]
                rows.append(row)
    with lzma.open(os.path.join(options.output, f"rankings-{options.seed}.json.xz"), "wt") as file:
        json.dump(rows, file, separators=(",", ":"))
    print(f"{len(rows)} rows", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shapes")
    parser.add_argument("output")
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--processes", type=int, default=15)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    if options.seed is not None:
        return work(options)
    command = [sys.executable, __file__, options.shapes, options.output]
    command += ["--seconds", str(options.seconds), "--seed"]
    running = [subprocess.Popen([*command, str(seed)]) for seed in range(options.processes)]
    return sys.exit(max(process.wait() for process in running))


if __name__ == "__main__":
    main()
