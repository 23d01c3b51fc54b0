"""What cuDNN takes for kinds of convolutions of which few were measured before: it is asked, and some are run.

    python3 bench/gpu/asked_convolutions.py OUTPUT.json.xz [--seconds 85] [--seed 7]

Layers are drawn at random: channels that stay apart (channels last), groups, filters as large as their images (as in
gradients of gradients), lines, transposed, strided and dilated layers, clips, odd channels, and layers without TF32.
Each is asked about: kernel, workspace and knobs of what is ranked first. One in ten is run, and what the allocator
was asked for beside the result is written down.
"""

import argparse
import json
import lzma
import random
import time
from functools import partial
from math import prod

import convolutions
import torch

from plimsoll_trace.kernels.convolution import Problem

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
KINDS = ("forward", "grad_input", "grad_weight")
# Layers that are run: one in so many, of at most so many multiplications.
RUN_SHARE, MAX_WORK = 10, 3e11


def ints(text):
    return tuple(map(int, text.split()))


def quads(text):
    """Filter, stride, padding (and what is added to the result) of each word."""
    return tuple(tuple(map(int, word.split(","))) for word in text.split())


UPWARD = quads(
    "4,2,1,0 4,2,1,0 2,2,0,0 2,2,0,0 3,2,1,1 5,2,2,1 3,1,1,0 4,1,0,0 4,4,0,0 1,1,0,0 6,2,2,0"
)
DOWNWARD = quads(
    "3,2,1 3,2,1 3,2,0 4,2,1 4,2,1 5,2,2 7,2,3 1,2,0 2,2,0 4,4,0 16,16,0 14,14,0 8,8,0 11,4,2 8,4,0 32,32,0"
)
CLIP_FILTERS = (
    *quads("3,1 3,1 3,1 1,0 1,0 2,0 5,2 4,1"),
    ([1, 3, 3], [0, 1, 1]),
    ([3, 1, 1], [1, 0, 0]),
    ([3, 7, 7], [1, 3, 3]),
    ([2, 16, 16], 0),
)
ALL_BATCHES = ints("1 1 2 2 3 4 4 5 6 8 8 10 12 16 16 20 24 32 32 48 64 64 96 128 128 200 256")
WIDTHS = ints(
    "8 16 24 32 32 40 48 64 64 64 80 96 112 128 128 128 160 192 192 256 256 256 320 384 512 512 640 768 1024"
)
SIDES = ints(
    "4 5 6 7 7 8 8 10 12 14 14 16 16 20 24 25 28 28 32 32 38 40 48 50 56 56 64 64 75 80 96 100"
    " 112 112 128 128 160 192 200 224 256 256 320 512"
)


def width(d, odd=0.1):
    return d.randint(1, 200) if d.random() < odd else d.choice(WIDTHS)


def any_dtype(d):
    return d.choice(("fp32", "fp32", "bf16", "bf16", "fp16"))


def plain(n, c, sizes, o, k, s, p, dil=1, groups=1, transposed=0, op=0):
    """One convolution over images of these sizes; k, s, p, dil, op numbers or lists."""
    dims = len(sizes)
    k, s, p, dil, op = ([v] * dims if isinstance(v, int) else list(v) for v in (k, s, p, dil, op))
    w = [c, o // groups, *k] if transposed else [o, c // groups, *k]
    return [[n, c, *sizes], w, s, p, dil, transposed, op, groups]


def square(d, wide=0.15):
    side = d.choice(SIDES)
    if d.random() < wide:
        return [max(1, side // d.choice((2, 3, 4, 8))), side]
    return [side, side]


def depthwise_last(d):
    c = d.choice((*WIDTHS, *ints("72 120 144 240 288 336 480 576 672 720 960 1152 1536 2048")))
    if d.random() < 0.1:
        c = d.randint(2, 300)
    k = d.choice(ints("3 3 5 5 7 7 7 9 9 11 13 31"))
    s = d.choice((1, 1, 1, 2))
    dil = d.choice((1,) * 9 + (2, 3))
    times = d.choice((1,) * 12 + (2,))
    made = plain(d.choice(ALL_BATCHES), c, square(d), c * times, k, s, dil * (k // 2), dil, c)
    return made, d.choice(("fp32", "bf16", "bf16", "fp16")), "nhwc"


def grouped(d):
    per = d.choice(ints("1 2 3 4 4 8 8 16 16 24 32 48 64 128"))
    groups = d.choice(ints("2 2 3 4 4 8 8 16 32 32 64"))
    out = per * d.choice((1, 1, 1, 1, 2, 4)) if per > 1 else d.choice((2, 3, 4))
    k = d.choice((1, 3, 3, 3, 5, 7))
    s = d.choice((1, 1, 2))
    n = 1 if d.random() < 0.2 else d.choice(ALL_BATCHES)
    made = plain(n, per * groups, square(d), out * groups, k, s, k // 2, 1, groups)
    return made, any_dtype(d), d.choice(("nchw", "nchw", "nhwc"))


def whole(d):
    """Filters as large as their images, as the gradients of gradients have them."""
    k = d.choice((1, 3, 3, 3, 4, 4, 5, 7))
    p = {1: 0, 3: 1, 4: 1, 5: 2, 7: 3}[k]
    s = d.choice((1, 1, 2)) if k < 4 else (2 if k == 4 else d.choice((1, 2)))
    side = d.choice(ints("4 6 7 8 8 14 16 16 28 32 32 48 64 64 64 96 100 128 128 160 256"))
    n = 1 if d.random() < 0.4 else d.choice(ints("2 4 8 16 16 25 32 64 64 128"))
    a, b = d.choice((1, 3, 3, 16, *WIDTHS)), d.choice((1, 3, *WIDTHS))
    out = (side + 2 * p - k) // s + 1
    numbers = [[a, n, side, side], [b, n, out, out], [1, 1], [p, p], [s, s], 0, [0, 0], 1]
    return numbers, d.choice(("fp32", "fp32", "fp32", "bf16")), "nchw"


def whole_line(d):
    k = d.choice(ints("3 4 5 7 15 16 25 31 41"))
    p, s = k // 2, d.choice((1, 2, 4))
    length = d.choice(ints("32 64 100 128 187 256 512 1000 1024 4096 8192 16384"))
    n = d.choice((1, 8, 16, 32, 64, 128))
    out = (length + 2 * p - k) // s + 1
    return [[width(d), n, length], [width(d), n, out], [1], [p], [s], 0, [0], 1], "fp32", "nchw"


def line(d):
    k = d.choice(ints("1 1 2 3 3 3 5 5 7 7 8 9 10 11 15 16 20 25 31 41 65"))
    s = 1 if d.random() < 0.65 else d.choice(ints("2 2 3 4 5 8 10 16 320"))
    dil = d.choice(ints("1 2 3 4 5 8 16 27 32 64 128 512")) if s == 1 and d.random() < 0.35 else 1
    p = d.choice((0, dil * (k - 1) // 2, dil * (k - 1) // 2, dil * (k - 1)))
    length = d.choice(
        ints(
            "16 50 64 100 128 187 200 256 300 400 500 512 750 1000 1024 1500"
            " 2000 3000 4000 4096 8000 8192 12000 16000 16384 24000 32000 48000 64000"
        )
    )
    c, o = width(d), width(d)
    groups = 1
    if d.random() < 0.2:
        groups = d.choice((2, 4, 8, 16))
        c, o = groups * max(1, c // groups), groups * max(1, o // groups)
    if d.random() < 0.1:
        c = d.choice((1, 1, 2, 12))
        groups = 1
    made = plain(d.choice(ALL_BATCHES), c, [length], o, k, s, p, dil, groups)
    return made, any_dtype(d), "nchw"


def depthwise_line(d):
    c, k = width(d) + 1, d.choice((3, 4, 5, 7, 9, 15, 31))
    dil = d.choice((1, 1, 1, 2, 4, 8, 32))
    length = d.choice(ints("64 128 256 500 512 1000 1024 2048 3000 4096 8000"))
    made = plain(d.choice(ALL_BATCHES), c, [length], c, k, 1, dil * (k - 1) // 2, dil, c)
    return made, any_dtype(d), "nchw"


def transposed(d):
    c, o = width(d), d.choice((1, 3, 3, *WIDTHS))
    if d.random() < 0.3:
        s = d.choice((2, 2, 4, 5, 8))
        k, length = 2 * s, d.choice(ints("32 50 100 128 256 500 512 1024 2048 4096 8192"))
        made = plain(
            d.choice(ALL_BATCHES), c, [length], o, k, s, s // 2 + s % 2, transposed=1, op=s % 2
        )
        return made, any_dtype(d), "nchw"
    k, s, p, op = d.choice(UPWARD)
    side = d.choice(ints("1 4 4 7 8 8 14 16 16 28 32 32 64 64 128"))
    made = plain(d.choice(ALL_BATCHES), c, [side, side], o, k, s, p, transposed=1, op=op)
    return made, any_dtype(d), d.choice(("nchw", "nchw", "nhwc"))


def clip(d):
    k, p = d.choice(CLIP_FILTERS)
    s = 2 if k in (2, 4) else k if k == [2, 16, 16] else d.choice((1, 1, 1, 2))
    depth, side = (
        d.choice(ints("4 8 8 16 16 32 48 64 96 128")),
        d.choice(ints("7 8 14 16 16 28 32 32 48 56 64 64 96 112 128")),
    )
    c, o = d.choice((1, 2, 3, 4, *WIDTHS[:24])), d.choice((1, 2, 3, 4, *WIDTHS[:24]))
    t = int(k in (2, 4) and d.random() < 0.5)
    made = plain(d.choice((1, 1, 2, 2, 4, 8, 16)), c, [depth, side, side], o, k, s, p, transposed=t)
    return made, any_dtype(d), "nchw"


def dilated(d):
    k, dil = d.choice((3, 3, 3, 5, 7)), d.choice(ints("2 2 3 4 6 8 12 16 18 24 36"))
    side = d.choice(ints("16 24 28 32 33 48 56 60 64 65 80 96 128 256"))
    p = dil * (k // 2)
    made = plain(d.choice(ALL_BATCHES[:22]), width(d), [side, side], width(d), k, 1, p, dil)
    return made, any_dtype(d), d.choice(("nchw", "nchw", "nhwc"))


def strided(d):
    k, s, p = d.choice(DOWNWARD)
    sizes = [max(n, k) for n in square(d)]
    c = 3 if k in (7, 11, 14, 16, 32) and d.random() < 0.7 else width(d)
    made = plain(d.choice(ALL_BATCHES), c, sizes, width(d), k, s, p)
    return made, any_dtype(d), d.choice(("nchw", "nchw", "nchw", "nhwc"))


def odd(d):
    """Few or odd numbers of channels: first and last layers, masks, heads."""
    k = d.choice((1, 1, 3, 3, 3, 5, 7, 9))
    c, o = d.choice(ints("1 1 2 3 3 4 5 6 7 9 12 13 21 33 65 91 257")), width(d, 0.3)
    if d.random() < 0.5:
        c, o = o, c
    p = d.choice((0, k // 2, k // 2))
    made = plain(d.choice(ALL_BATCHES), c, [max(n, k) for n in square(d)], o, k, 1, p)
    return made, any_dtype(d), d.choice(("nchw", "nchw", "nchw", "nhwc"))


def dense_last(d):
    k = d.choice((1, 1, 1, 3, 3, 3, 5, 7))
    s = d.choice((1, 1, 1, 2))
    made = plain(d.choice(ALL_BATCHES), width(d), square(d), width(d), k, s, k // 2)
    return made, any_dtype(d), "nhwc"


def dense_first(d):
    k = d.choice((*ints("1 1 3 3 3 4 5 6 7 9 11"), [1, 7], [7, 1], [1, 3], [3, 1], [9, 1]))
    ks = [k, k] if isinstance(k, int) else k
    p = [0, 0] if d.random() < 0.25 else [n // 2 for n in ks]
    sizes = [max(n, m) for n, m in zip(square(d, 0.3), ks)]
    made = plain(d.choice(ALL_BATCHES), width(d), sizes, width(d), k, 1, p)
    return made, any_dtype(d), "nchw"


def without_tf32(d):
    numbers, _, layout = d.choice((dense_first, strided, line, transposed))(d)
    return numbers, d.choice(("fp32", "fp32", "fp32", "bf16")), layout


AREAS = {
    "depthwise_last": (depthwise_last, 5),
    "grouped": (grouped, 2),
    "whole": (whole, 4),
    "whole_line": (whole_line, 1),
    "line": (line, 3),
    "depthwise_line": (depthwise_line, 0.4),
    "transposed": (transposed, 3),
    "clip": (clip, 2),
    "dilated": (dilated, 1.5),
    "strided": (strided, 2),
    "odd": (odd, 2),
    "dense_last": (dense_last, 2),
    "dense_first": (dense_first, 3),
    "tf32_off": (without_tf32, 1.5),
}


def result_shape(numbers):
    x, w, stride, padding, dilation, transposed, output_padding, groups = numbers
    x, w = (torch.empty(shape, device="meta") for shape in (x, w))
    args = (stride, padding, dilation, bool(transposed), output_padding, groups)
    return list(torch.ops.aten.convolution(x, w, None, *args).shape)


def draws(seed):
    """(area, numbers, dtype, layout) without end."""
    d = random.Random(seed)
    names, shares = list(AREAS), [share for _, share in AREAS.values()]
    while True:
        area = d.choices(names, shares)[0]
        numbers, dtype, layout = AREAS[area][0](d)
        try:
            y = result_shape(numbers)
        except RuntimeError:
            continue
        if (
            min(y) < 1
            or max(prod(numbers[0]), prod(y)) * DTYPES[dtype].itemsize > 2**31
            or prod(numbers[1]) > 2**27
        ):
            continue
        yield area, numbers, dtype, layout


def is_run(number, numbers):
    x, w, *_, transposed, _, _ = numbers
    out = x if transposed else result_shape(numbers)
    return number % RUN_SHARE == 0 and out[0] * prod(out[2:]) * prod(w) <= MAX_WORK


def tensors(numbers, dtype, layout, device):
    made = [torch.empty(shape, device=device, dtype=DTYPES[dtype]) for shape in numbers[:2]]
    if layout == "nhwc":
        made = [tensor.to(memory_format=torch.channels_last) for tensor in made]
    return made


def run(numbers, dtype, layout):
    """Bytes beside the result: of the layer, of the gradient of its input and of its weight."""
    x, w = (tensor.normal_() for tensor in tensors(numbers, dtype, layout, "cuda"))
    args = [*numbers[2:5], bool(numbers[5]), *numbers[6:]]
    y, forward = convolutions.peak_asked(lambda: torch.ops.aten.convolution(x, w, None, *args))
    sizes = [forward - convolutions.bytes_of(y)]
    for wanted, of in (([True, False, False], x), ([False, True, False], w)):
        call = partial(torch.ops.aten.convolution_backward, y, x, w, None, *args, wanted)
        sizes.append(convolutions.peak_asked(call)[1] - convolutions.bytes_of(of))
    return sizes


def ask(library, numbers, dtype, layout):
    x, w = tensors(numbers, dtype, layout, "meta")
    _, _, stride, padding, dilation, transposed, output_padding, groups = numbers
    args = (stride, padding, dilation, bool(transposed))
    y = torch.ops.aten.convolution(x, w, None, *args, output_padding, groups)
    problem = Problem(x, w, y, *args, groups)
    found = (library.choose(problem, which) for which in KINDS)
    return [one and [one.engine, one.workspace, sorted(one.knobs.items())] for one in found]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--seconds", type=float, default=85)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    torch.cuda.init()
    library = convolutions.OnDevice()
    result = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "asked": [],
        "run": [],
    }
    end = time.monotonic() + options.seconds
    for number, (kind, *layer) in enumerate(draws(options.seed)):
        if time.monotonic() > end:
            break
        torch.backends.cudnn.allow_tf32 = kind != "tf32_off"
        result["asked"].append([kind, *layer, ask(library, *layer)])
        if is_run(number, layer[0]):
            result["run"].append([kind, *layer, run(*layer)])
    with lzma.open(options.output, "wt") as file:
        json.dump(result, file, separators=(",", ":"))
    print(f"asked about {len(result['asked'])} layers, ran {len(result['run'])}")


if __name__ == "__main__":
    main()
