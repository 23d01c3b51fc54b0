"""When kernels of some kinds first run in a process: the driver then takes address space for itself.

Seen in 160 recorded runs on an H200 and, op by op, in eight jobs there: nothing happens while a model is only
laid out; the first kernel, other than those that draw random numbers, moves what the driver had; the first
that reads by index or reduces, and checks what it reads, brings a heap along; the first convolution brings cuDNN.
"""

from __future__ import annotations

from typing import Any

from .ledger import Ledger
from .op_facts import is_view

KERNEL, CHECKING, IMAGES, LINES = "kernel", "checking", "images", "lines"

_LAID_OUT = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
# Copies from the host run no kernel, and copies on the device often run none.
_COPIES = {"copy_", "_to_copy", "clone", "lift_fresh", "lift_fresh_copy", "set_", "resize_"}
_DRAWS = {
    "normal_",
    "uniform_",
    "random_",
    "bernoulli_",
    "exponential_",
    "log_normal_",
    "rand",
    "rand_like",
    "randn",
    "randn_like",
    "randint",
    "randint_like",
    "randperm",
}
_CHECKING = {
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "cumsum",
    "embedding",
    "gather",
    "index",
    "index_add",
    "index_put_",
    "index_select",
    "linalg_vector_norm",
    "max",
    "mean",
    "min",
    "nll_loss_forward",
    "norm",
    "scatter",
    "scatter_",
    "scatter_add",
    "scatter_add_",
    "sort",
    "std",
    "sum",
    "topk",
    "var",
    "var_mean",
    "_embedding_bag",
}
# A number to the power of a tensor.
_POWER = "Scalar"
_LINE_DIMS = 3


class Launches:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._awaited = {KERNEL, CHECKING, "convolution"}
        # By the `id` of an op, which is held so that no other gets it: most programs wait for a convolution for good.
        self._kernels: dict[int, tuple[str | None, Any]] = {}

    def notice(self, func: Any, args: Any) -> None:
        if not self._awaited:
            return
        known = self._kernels.get(id(func))
        if known is None:
            known = self._kernels[id(func)] = (_kernel_of(func), func)
        name = known[0]
        if name is None:
            return
        self._first(KERNEL)
        if name in _CHECKING or (name == "pow" and func._overloadname == _POWER):
            self._first(CHECKING)
        if name == "convolution" and "convolution" in self._awaited:
            self._awaited.remove("convolution")
            self._ledger.launch(LINES if args[0].dim() == _LINE_DIMS else IMAGES)

    def _first(self, kind: str) -> None:
        if kind in self._awaited:
            self._awaited.remove(kind)
            self._ledger.launch(kind)


def _kernel_of(func: Any) -> str | None:
    """The op's name, without its overload; None where it runs no kernel that counts."""
    name = func._schema.name.partition("::")[2]
    if name in _LAID_OUT or name in _COPIES or name in _DRAWS or is_view(func):
        return None
    return name
