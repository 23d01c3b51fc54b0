"""Runs the code that Inductor writes, with memory of the pretended card and kernels that do nothing."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from torch._inductor import async_compile

from ..places import GPU
from .trials import forms, tried


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
