"""What to say of a program that put nothing on the GPU: where it chose the CPU, and how it would choose the GPU."""

from __future__ import annotations

import os
import re

from plimsoll.failure import Failure

# In an argument, a word of its own: `--device cpu`, `--no_cuda`, `--device=cpu`, `use_cpu=True`.
_CHOSEN = re.compile(r"(?:^|[^a-z])(?:cpu|no[-_]?(?:cuda|gpu))(?:[^a-z]|$)", re.IGNORECASE)
# An option of `argparse` or `click` that is about the device.
_OPTION = re.compile(
    r"""(?:add_argument|option)\([^)]*?["'](--[\w-]*(?:device|cuda|gpu|cpu)[\w-]*)["']"""
)
_MAX_BYTES = 1 << 20


def failure_without_gpu(command: list[str], computed: bool) -> Failure:
    """computed: whether it computed anything with PyTorch.

    >>> failure_without_gpu(["train.py", "--device", "cpu"], True).next
    'change or leave out the argument "--device cpu"'
    """
    if not computed:
        return Failure(
            "program-without-gpu",
            "a GPU is simulated here, and the program ended and put nothing on it",
            "check its arguments: it ended before it computed anything with PyTorch",
        )
    return Failure(
        "program-without-gpu",
        "a GPU is simulated here (torch.cuda.is_available() is True), and the program chose the CPU: "
        "it put nothing on the GPU",
        _how_to_choose(command),
    )


def _how_to_choose(command: list[str]) -> str:
    for at, word in enumerate(command[1:], 1):
        if _CHOSEN.search(word):
            option = command[at - 1] if at > 1 and word[:1] != "-" else ""
            said = f"{option} {word}" if option.startswith("-") else word
            return f'change or leave out the argument "{said}"'
    source = _source(command)
    declared = _OPTION.search(source)
    if declared:
        value = " cuda" if declared[1].endswith("device") else ""
        return f"give the option by which it chooses the GPU: {declared[1]}{value}"
    name = os.path.basename(command[0]) if command[0] != "-m" else command[1]
    if "cuda" in source:
        return f'see where {name} sets its device: the model and each batch go to "cuda"'
    return (
        f'write in {name}: device = "cuda" if torch.cuda.is_available() else "cpu", and .to(device) '
        "for the model and for each batch"
    )


def _source(command: list[str]) -> str:
    try:
        with open(command[0], encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return ""
