"""The arguments of a trace; read without torch, so that a wrong one is told at once."""

from __future__ import annotations

import argparse

from plimsoll.failure import Failure

from .sharding.parallel import DTYPE_NAMES, LARGEST_WORLD, STRATEGIES, WAYS

PRECISIONS = ("fp32", "bf16", "fp16", "amp-bf16", "amp-fp16")
QUANTIZATIONS = ("cpu", "fp16", "int8", "int4", "int4_double", "int4_offload")
KEPT = ("loss", "outputs")
OPTIMIZERS = (
    "adamw",
    "adamw-fused",
    "adamw-8bit",
    "adam",
    "adam-fused",
    "adamax",
    "nadam",
    "radam",
    "rmsprop",
    "adagrad",
    "adadelta",
    "adafactor",
    "sgd",
    "sgd-momentum",
)
# How the files of a program are kept apart: see `programs/files`.
VIEW, COPIES = "view", "copies"
# More than any tensor dimension that fits a GPU; keeps a slip of the finger from running for hours.
_LARGEST = 1 << 24


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        raise Failure("bad-arguments", message, "see python -m plimsoll_trace --help")


def parse(argv: list[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m plimsoll_trace",
        description="Runs a few steps of a model on the meta device and writes, as JSON lines, "
        "what CUDA's allocator would be asked for.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", help="a Hugging Face config.json, or its folder")
    source.add_argument("--torchvision", metavar="NAME", help="a classifier of torchvision")
    source.add_argument("--script", help="a Python file that defines workload(**args)")
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="K=V",
        help="an argument of the script's workload",
    )
    parser.add_argument("--mode", choices=("train", "infer"), default="train")
    parser.add_argument("--batch", type=_count, default=1)
    parser.add_argument("--seq", type=_count, default=None, help="tokens; for images pixels a side")
    parser.add_argument("--image", type=_count, default=None, help="pixels a side")
    parser.add_argument(
        "--target-seq",
        type=_count,
        default=None,
        help="tokens of the labels, for an encoder with a decoder",
    )
    parser.add_argument(
        "--keep",
        choices=KEPT,
        default=None,
        help="what the training loop keeps alive until the next step",
    )
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
    parser.add_argument(
        "--accumulation",
        type=_count,
        default=1,
        help="batches whose gradients are added up before the optimizer steps",
    )
    parser.add_argument("--checkpointing", action="store_true", help="gradient checkpointing")
    parser.add_argument(
        "--lora",
        type=_count,
        default=None,
        metavar="RANK",
        help="train adapters on all linear layers",
    )
    parser.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        default=None,
        help="weights as bitsandbytes keeps them",
    )
    parser.add_argument(
        "--gpu", metavar="NAME", default=None, help="the card, as its driver names it"
    )
    parser.add_argument(
        "--capability", type=_capability, default=None, help="of the card, such as 8.6"
    )
    parser.add_argument("--multiprocessors", type=_count, default=None, help="of the card")
    parser.add_argument("--gpu-memory", type=int, default=None, help="of the card, in bytes")
    _add_parallel(parser)
    parser.add_argument("--cards", type=_count, default=1, help="that a program sees")
    parser.add_argument("--steps", type=_count, default=3)
    parser.add_argument("--output", default="-", help="a file, or - for standard output")
    parser.add_argument(
        "--scratch", help="a folder for a program's temporary files, which ends with the trace"
    )
    parser.add_argument(
        "--protection",
        choices=(VIEW, COPIES),
        default=None,
        help="what keeps a program from changing files; left out, the best that works here",
    )
    source.add_argument(
        "--program",
        nargs=argparse.REMAINDER,
        help="a program as it is, with its arguments: train.py ..., or -m package ...; last of all",
    )
    return parser.parse_args(argv)


def _add_parallel(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--parallel", choices=WAYS, default=None, help="one rank of many is traced")
    add("--gpus", type=_ranks, default=1, help="how many ranks there are")
    add("--tp", type=_ranks, default=None, help="ranks that share each layer")
    add("--nodes", type=_ranks, default=1, help="machines; hsdp keeps one copy on each")
    add("--gather-precision", choices=DTYPE_NAMES, default=None)
    add("--reduce-precision", choices=DTYPE_NAMES, default=None)
    add("--no-reshard", action="store_true", help="keep what was gathered until backward")
    add("--fsdp-strategy", choices=STRATEGIES, default="full")
    add("--no-orig-params", action="store_true")
    add("--bucket-mb", type=_count, default=25)
    add("--bucket-view", action="store_true", help="gradients lie in the buckets")
    add("--offload", choices=("optimizer",), default=None)


def _ranks(text: str) -> int:
    value = int(text)
    if not 0 < value <= LARGEST_WORLD:
        raise argparse.ArgumentTypeError(f"must be between 1 and {LARGEST_WORLD}")
    return value


def _capability(text: str) -> int:
    """`8.6` as 86; what is not one (an AMD architecture) is told as 0, of which nothing is known."""
    major, _, minor = text.partition(".")
    return int(major) * 10 + int(minor) if major.isdigit() and minor.isdigit() else 0


def _count(text: str) -> int:
    value = int(text)
    if not 0 < value <= _LARGEST:
        raise argparse.ArgumentTypeError(f"must be between 1 and {_LARGEST}")
    return value
