"""Runs the code that Inductor writes, with memory of the pretended card and kernels that do nothing."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch._inductor import async_compile
from torch._inductor.runtime import hints, triton_heuristics

from ...ledger import WORKSPACE
from ..places import GPU

# How Inductor tries a fused kernel out, in a few forms, before its first run.

_DECORATED = re.compile(
    r"@(triton_heuristics\.\w+\(.*?\))\s*@triton\.jit\s*def \w+\((.*?)\)", re.DOTALL
)
# The others name all forms themselves: one.
_LISTED = ("pointwise", "reduction", "persistent_reduction")


class Forms(NamedTuple):
    """What is known of a kernel before it runs."""

    number: int
    # Places of the arguments that it changes: each try works on copies of these.
    changed: tuple[int, ...] = ()
    # Whether copies that would raise the peak so far lie on the host.
    spares: bool = False


class _Settings:
    """Stands for the module of heuristics in the source of a kernel: says which is asked, and how."""

    def __getattr__(self, name: str) -> Any:
        return lambda **settings: (name, settings)


def forms(source: str) -> Forms:
    found = _DECORATED.search(source)
    if found is None:
        return Forms(1)
    names = {**vars(hints), "triton_heuristics": _Settings(), "__file__": None}
    kind, settings = eval(found[1], names)
    if kind not in _LISTED:
        return Forms(1)
    facts = settings["inductor_meta"]
    listed = getattr(triton_heuristics, kind)(**settings, return_configs=True)
    arguments = [part.split(":")[0].strip() for part in found[2].split(",")]
    changed = facts.get("mutated_arg_names", ())
    return Forms(
        len(triton_heuristics.unique_configs(listed)),
        tuple(place for place, name in enumerate(arguments) if name in changed),
        facts.get("optimize_mem", True),
    )


def tried(known: Forms, name: str, args: tuple, observer: Any) -> None:
    """Asks for what the trials of a kernel ask for."""
    if known.number < 2:
        return
    ledger = observer.ledger

    def run(copies: list[int]) -> None:
        made = [ledger.allocate(size, name, "", WORKSPACE) for size in copies]
        for one in made:
            ledger.free(one)

    for _ in range(known.number):
        copies = _copied(known, args, ledger.peak_bytes - ledger.live_bytes)
        run(copies)
        # Between two runs the second level cache is overwritten, by a buffer of its size.
        cache = ledger.allocate(observer.gpu.cache, name, "", WORKSPACE)
        run(copies)
        ledger.free(cache)


def _copied(known: Forms, args: tuple, room: int) -> list[int]:
    sizes = []
    for place in known.changed:
        size = _spanned(args[place])
        if known.spares and size > room:
            continue
        room -= size
        sizes.append(size)
    return sizes


def _spanned(tensor: torch.Tensor) -> int:
    """Bytes from the first to the last number of a tensor."""
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size()


class _Kernel:
    """A fused kernel writes into what it is given. Before its first run it is tried in a few forms."""

    def __init__(self, name: str, source: str, observer: Any):
        self._name, self._source, self._observer = name, source, observer

    def run(self, *args: Any, **_: Any) -> None:
        if self._source in self._observer.tried:
            return
        self._observer.tried.add(self._source)
        tried(forms(self._source), self._name, args, self._observer)

    __call__ = run


class _Kernels:
    """In place of the compiler of kernels."""

    def __init__(self, observer: Any):
        self._observer = observer

    def triton(self, name: str, source: str, *_: Any, **__: Any) -> _Kernel:
        return _Kernel(name, source, self._observer)

    def wait(self, _: Any) -> None:
        return None


def executable(code: str, constants: dict[str, Any], observer: Any) -> Any:
    places = observer.places

    def empty(size: Any, stride: Any, dtype: Any) -> Any:
        with places.naming(GPU):
            return torch.empty_strided(size, stride, dtype=dtype, device="meta")

    def reinterpret(tensor: Any, size: Any, stride: Any, offset: int = 0) -> Any:
        return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)

    def device(*args: Any, **kwargs: Any) -> Any:
        named = torch.device(*args, **kwargs)
        return torch.device("meta") if named.type == "cuda" else named

    names: dict[str, Any] = {"__name__": "plimsoll_compiled"}
    with mock.patch.object(async_compile, "AsyncCompile", lambda: _Kernels(observer)):
        exec(compile(code, "<compiled>", "exec"), names)
    names.update(
        constants,
        empty_strided_cuda=empty,
        reinterpret_tensor=reinterpret,
        device=device,
        assert_size_stride=_nothing,
        assert_alignment=_nothing,
        get_raw_stream=_nothing,
    )
    run = names["call"]

    def call(inputs: list) -> Any:
        with torch._C.DisableTorchFunction():
            return run(inputs)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _nothing(*_: Any, **__: Any) -> None:
    return None
