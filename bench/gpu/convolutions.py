"""What convolutions ask the allocator for beside their results, and which kernel cuDNN ranks first.

    python3 bench/gpu/convolutions.py OUTPUT.json.xz [--problems FILE.json] [--seconds 60]

Takes the problems of bench/truth/convolutions.json.xz, or those of a file of its own, and measures each
in float32 and bfloat16 on the GPU at hand: bytes of workspace for the result, the input's gradient and
the weight's, then cuDNN's numbers of the kernels. python/tools/fit_kernels.py learns from the file it
writes.
"""

import argparse
import ctypes
import json
import lzma
import os
import sys
import time
from functools import partial

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

from plimsoll_trace.gpu import H200, cudnn_properties
from plimsoll_trace.kernels import cudnn_library
from plimsoll_trace.kernels.convolution import Problem

TRUTH = os.path.join(ROOT, "bench", "truth", "convolutions.json.xz")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
KINDS = ("forward", "grad_input", "grad_weight")
# Numbers of cuDNN's backend interface: the handle of a graph and of a plan, and the type of both.
GRAPH_HANDLE, PLAN_HANDLE, HANDLE = 800, 400, 0


class OnDevice(cudnn_library.Cudnn):
    """cuDNN asked with a real device, so that no kernel is left out of its ranking."""

    def __init__(self):
        super().__init__(cudnn_properties(H200))
        self.handle = ctypes.c_void_p()
        self._check(self._library.cudnnCreate(ctypes.byref(self.handle)))

    def _create(self, kind):
        made = super()._create(kind)
        if kind == cudnn_library._Is.GRAPH:
            self._set(made, GRAPH_HANDLE, HANDLE, 1, ctypes.byref(self.handle))
        return made

    def _link(self, descriptor, name, other):
        # The device that is told in words gives way to the handle.
        if other is self._device:
            if name != 204:
                self._set(descriptor, PLAN_HANDLE, HANDLE, 1, ctypes.byref(self.handle))
            return
        super()._link(descriptor, name, other)


def peak_asked(run):
    """The result, and the most bytes asked for above the start."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    result = run()
    return result, torch.cuda.memory_stats()["requested_bytes.all.peak"] - before


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def measure(numbers, dtype):
    x, w, stride, padding, dilation, transposed, output_padding, groups = numbers
    args = (stride, padding, dilation, bool(transposed), output_padding, groups)
    x, w = (torch.randn(shape, device="cuda").to(dtype) for shape in (x, w))
    y, forward = peak_asked(lambda: torch.ops.aten.convolution(x, w, None, *args))
    asked = [forward - bytes_of(y)]
    for wanted, of in (([True, False, False], x), ([False, True, False], w)):
        run = partial(torch.ops.aten.convolution_backward, y, x, w, None, *args, wanted)
        asked.append(peak_asked(run)[1] - bytes_of(of))
    return asked, Problem(x, w, y, stride, padding, dilation, bool(transposed), groups)


def problems_of(path):
    if path:
        with open(path) as file:
            return json.load(file)
    with lzma.open(TRUTH) as file:
        return json.load(file)["problems"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--problems")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    problems = problems_of(options.problems)
    library = OnDevice()
    rows = []
    end = time.monotonic() + options.seconds
    for number, numbers in enumerate(problems):
        if time.monotonic() > end:
            break
        for name, dtype in DTYPES.items():
            asked, problem = measure(numbers, dtype)
            ranked = [None] * 3
            if problem.groups == 1 and not problem.transposed:
                ranked = [
                    getattr(library.choose(problem, which), "engine", None) for which in KINDS
                ]
            rows.append([number, name, *asked, *ranked])
    result = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "problems": problems,
        "rows": rows,
    }
    with lzma.open(options.output, "wt") as file:
        json.dump(result, file, separators=(",", ":"))
    print(f"measured {len({row[0] for row in rows})} of {len(problems)} problems")


if __name__ == "__main__":
    main()
