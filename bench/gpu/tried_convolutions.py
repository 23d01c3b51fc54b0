"""What `cudnn.benchmark` asks the allocator for while it tries all kernels, and for the kernel it takes.

    python3 bench/gpu/tried_convolutions.py OUTPUT.json [--seconds 80]

Beside each measured size stand cuDNN's own lists: kernels and their workspaces, ranked with the device at
hand and without one. Without a GPU only the second list is written.
"""

import argparse
import json
import time

import convolutions
import torch

from plimsoll_trace.gpu import H200, cudnn_properties
from plimsoll_trace.kernels import cudnn_library
from plimsoll_trace.kernels.convolution import Problem

LAYOUTS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def layers():
    """(images, input, output, size, kernel, stride, padding, transposed), of networks as people train them."""
    for n in (256, 64):
        # A GAN of 64 x 64 pixels: its generator, and its discriminator.
        yield from (
            (n, 100, 512, 1, 4, 1, 0, True),
            (n, 512, 256, 4, 4, 2, 1, True),
            (n, 256, 128, 8, 4, 2, 1, True),
            (n, 128, 64, 16, 4, 2, 1, True),
            (n, 64, 3, 32, 4, 2, 1, True),
            (n, 3, 64, 64, 4, 2, 1, False),
            (n, 64, 128, 32, 4, 2, 1, False),
            (n, 128, 256, 16, 4, 2, 1, False),
            (n, 256, 512, 8, 4, 2, 1, False),
            (n, 512, 1, 4, 4, 1, 0, False),
        )
    yield from (
        (64, 3, 64, 224, 7, 2, 3, False),
        (64, 64, 64, 56, 3, 1, 1, False),
        (64, 64, 256, 56, 1, 1, 0, False),
        (64, 128, 128, 28, 3, 1, 1, False),
        (64, 256, 512, 28, 1, 2, 0, False),
        (64, 256, 256, 14, 3, 1, 1, False),
        (64, 512, 512, 7, 3, 1, 1, False),
        (16, 3, 64, 256, 3, 1, 1, False),
        (16, 64, 64, 128, 3, 1, 1, False),
        (8, 128, 64, 64, 2, 2, 0, True),
        (128, 3, 32, 32, 3, 1, 1, False),
        (128, 32, 64, 32, 5, 1, 2, False),
    )


class Listing:
    """All kernels that are ranked, with their workspaces, most bytes first."""

    def __init__(self, library):
        self.library = library

    def of(self, problem, which):
        found = []
        with self.library._closing():
            plans = self.library._plans(problem, which, (0, 2), 128)
            found = [[plan.engine, plan.workspace] for plan in plans]
        return sorted(found, key=lambda entry: -entry[1])[:6]


def asked(run, result):
    """Most bytes beside the result, at the first run, which tries, and at the second."""
    sizes = []
    for _ in range(2):
        made, peak = convolutions.peak_asked(run)
        sizes.append(peak - convolutions.bytes_of(result))
        del made
    return sizes


def output_of(x, w, args):
    """Not computed: a kernel that was taken once is not tried again."""
    shape = torch.ops.aten.convolution(x.to("meta"), w.to("meta"), None, *args).shape
    return torch.empty(shape, dtype=x.dtype, device=x.device)


def operations(x, w, y, args):
    def gradient(*wanted):
        return torch.ops.aten.convolution_backward(y, x, w, None, *args, [*wanted, False])

    transposed = args[3]
    of_input = "forward" if transposed else "grad_input"
    yield (
        "grad_input" if transposed else "forward",
        lambda: torch.ops.aten.convolution(x, w, None, *args),
        y,
    )
    yield of_input, lambda: gradient(True, False), x
    yield "grad_weight", lambda: gradient(False, True), w


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    on_card = torch.cuda.is_available()
    device = "cuda" if on_card else "meta"
    lists = {"without": Listing(cudnn_library.Cudnn(cudnn_properties(H200)))}
    if on_card:
        lists["with"] = Listing(convolutions.OnDevice())
    torch.backends.cudnn.benchmark = True
    rows = []
    end = time.monotonic() + options.seconds
    for dtype, layout in (("fp32", "nchw"), ("bf16", "nchw"), ("bf16", "nhwc"), ("fp16", "nchw")):
        for n, inputs, outputs, size, kernel, stride, padding, transposed in layers():
            if time.monotonic() > end:
                break
            shape = (inputs, outputs) if transposed else (outputs, inputs)
            x = torch.empty(n, inputs, size, size, dtype=DTYPES[dtype], device=device)
            w = torch.empty(*shape, kernel, kernel, dtype=DTYPES[dtype], device=device)
            x, w = (t.to(memory_format=LAYOUTS[layout]) for t in (x, w))
            args = ([stride] * 2, [padding] * 2, [1, 1], transposed, [0, 0], 1)
            y = output_of(x, w, args).to(memory_format=LAYOUTS[layout])
            for which, run, result in operations(x, w, y, args):
                problem = Problem(x, w, y, *args[:3], transposed, 1)
                ranked = {name: listing.of(problem, which) for name, listing in lists.items()}
                sizes = asked(run, result) if on_card else None
                rows.append(
                    {
                        "layer": [n, inputs, outputs, size, kernel, stride, padding, transposed],
                        "dtype": dtype,
                        "layout": layout,
                        "which": which,
                        "asked": sizes,
                        **ranked,
                    }
                )
    answer = {
        "gpu": torch.cuda.get_device_name() if on_card else None,
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "rows": rows,
    }
    with open(options.output, "w", encoding="utf-8") as file:
        json.dump(answer, file)
    print(f"measured {len(rows)} operations")


if __name__ == "__main__":
    main()
