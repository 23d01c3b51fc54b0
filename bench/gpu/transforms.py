"""Which kernel cuDNN ranks first on the GPU at hand, for filters of 3 x 3 to 7 x 7 in float32; nothing is computed.

    python3 bench/gpu/transforms.py OUTPUT.json.xz [--seconds 14] [--processes 6]

Layers are drawn at random: 4 to 512 channels, images of 4 x 4 to 64 x 64 pixels, 4 to 588 of them.
python/tools/fit_kernels.py learns from the file: all layers that go by Fourier transform, and a share of the
others.
"""

import argparse
import json
import lzma
import random
import subprocess
import sys
import time

import convolutions
import torch

from plimsoll_trace.kernels.convolution import Problem

TRANSFORMS = {"forward": 3, "grad_input": 50, "grad_weight": 18}
SHARE_OF_OTHERS = {"forward": 1, "grad_input": 0.35, "grad_weight": 0.18}
KINDS = ("grad_weight", "grad_weight", "grad_weight", "grad_input", "forward")
FILTERS = (3, 3, 3, 3, 3, 3, 5, 7)
# Results with filters of 3 x 3 never go by transform.
SMALL_FILTER = 3
MAX_BYTES = 2 << 30
COLUMNS = ("images", "inputs", "outputs", "side", "filter", "which", "engine")


def channels(draw):
    step = draw.choice((4, 8, 8, 8, 16, 16, 32))
    return max(step, round(2 ** draw.uniform(2.5, 9) / step) * step)


def layer(draw):
    side = draw.randint(4, 20) if draw.random() < 0.5 else draw.randint(4, 64)
    images = max(1, round(2 ** draw.uniform(2, 9.2)))
    return images, channels(draw), channels(draw), side, draw.choice(FILTERS)


def problem_of(images, inputs, outputs, side, width):
    x, y = (torch.empty(images, n, side, side, device="meta") for n in (inputs, outputs))
    w = torch.empty(outputs, inputs, width, width, device="meta")
    return Problem(x, w, y, [1, 1], [width // 2] * 2, [1, 1], False, 1)


def ask(seed, seconds):
    draw = random.Random(seed)
    library = convolutions.OnDevice()
    rows, asked, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end:
        shape, which = layer(draw), draw.choice(KINDS)
        images, inputs, outputs, side, width = shape
        if images * max(inputs, outputs) * side * side * 4 > MAX_BYTES:
            continue
        if which == "forward" and width == SMALL_FILTER:
            continue
        first = library.choose(problem_of(*shape), which)
        engine = first and first.engine
        asked += 1
        if engine == TRANSFORMS[which] or draw.random() < SHARE_OF_OTHERS[which]:
            rows.append([*shape, which, engine])
    print(json.dumps([asked, rows]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--seconds", type=float, default=14)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.seed is not None:
        ask(options.seed, options.seconds)
        return
    running = [
        subprocess.Popen([sys.executable, *sys.argv, "--seed", str(seed)], stdout=subprocess.PIPE)
        for seed in range(options.processes)
    ]
    answers = [json.loads(process.communicate()[0]) for process in running]
    result = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "asked": sum(asked for asked, _ in answers),
        "shareOfOthers": SHARE_OF_OTHERS,
        "columns": COLUMNS,
        "rows": [row for _, rows in answers for row in rows],
    }
    with lzma.open(options.output, "wt") as file:
        json.dump(result, file, separators=(",", ":"))
    print(f"asked about {result['asked']} layers, kept {len(result['rows'])}")


if __name__ == "__main__":
    main()
