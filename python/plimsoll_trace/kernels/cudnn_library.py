"""cuDNN's own answer, asked without a GPU: which kernel it would take and its workspace.

cuDNN can be told about a device in JSON instead of finding one, and then ranks its kernels as it
would there. The library comes with PyTorch's CUDA builds; without it `None` is the answer.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, NamedTuple

import torch


# Numbers of cuDNN's backend interface (cudnn_graph.h): kinds of descriptors, and types of attributes.
class _Is(IntEnum):
    CONVOLUTION = 1
    ENGINE = 2
    CONFIG = 3
    HEURISTICS = 4
    PLAN = 5
    KNOB = 7
    GRAPH = 15
    TENSOR = 17
    DEVICE = 38


class _Of(IntEnum):
    DATA_TYPE = 1
    INT64 = 3
    FLOAT = 4
    MODE = 7
    HEURISTIC = 8
    KNOB = 9
    NOTE = 11
    DESCRIPTOR = 15
    CHAR = 24


_OPERATIONS = {"forward": (10, 700), "grad_input": (12, 706), "grad_weight": (11, 712)}
_DTYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 9}
# What cuDNN notes about a kernel's numbers.
_TENSOR_CORES, _DOWN_CONVERTS, _NONDETERMINISTIC = 0, 1, 4
_ALIGNMENT = 32
# PyTorch tries the ranked kernels in turn; the first that can be built is nearly always the first.
_TRIES = 8
# With `cudnn.benchmark` it tries all of them, some 40.
_ALL = 128
# Most kernels have fewer settings than the first; none has more than the second.
_FEW_KNOBS, _ALL_KNOBS = 16, 32
# Ways to rank: by a quick look at the shape, by a closer one, which PyTorch never asks for, and what always works,
# which it takes where the first finds none.
_QUICK, _CLOSER, _FALLBACK = 0, 1, 2


def is_deterministic() -> bool:
    """Whether the program wants the same numbers each time: then PyTorch leaves out kernels that cannot give them."""
    return torch.backends.cudnn.deterministic or torch.are_deterministic_algorithms_enabled()


def allows_tf32() -> bool:
    """Whether float32 may be rounded for tensor cores: if not, PyTorch leaves out all kernels that use them."""
    conv = getattr(torch.backends.cudnn, "conv", None)
    return conv.fp32_precision == "tf32" if conv else torch.backends.cudnn.allow_tf32


class Choice(NamedTuple):
    engine: int
    knobs: dict[int, int]
    workspace: int


class CudnnError(Exception):
    pass


class Cudnn:
    """A loaded cuDNN that believes in one device."""

    def __init__(self, device: dict[str, Any]):
        self._library = ctypes.CDLL("libcudnn.so.9")
        pointer, number, wide = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
        self._library.cudnnBackendSetAttribute.argtypes = [pointer, number, number, wide, pointer]
        self._library.cudnnBackendGetAttribute.argtypes = [
            pointer,
            number,
            number,
            wide,
            pointer,
            pointer,
        ]
        self._library.cudnnBackendFinalize.argtypes = [pointer]
        self._library.cudnnBackendDestroyDescriptor.argtypes = [pointer]
        self._open: list[ctypes.c_void_p] = []
        text = json.dumps(device).encode()
        self._device = self._create(_Is.DEVICE)
        self._set(self._device, 2702, _Of.CHAR, len(text), ctypes.create_string_buffer(text))
        self._finalize(self._device)
        self._open.clear()

    def choose(self, problem: Any, which: str, fallback: bool = True) -> Choice | None:
        """The kernel PyTorch would run, or None where none can be built."""
        rankings = (_QUICK, _FALLBACK) if fallback else (_QUICK,)
        # Those without tensor cores may stand far down in the ranking.
        most = _TRIES if allows_tf32() else _ALL
        with self._closing():
            return next(self._plans(problem, which, rankings, most), None)
        return None

    def tried(self, problem: Any, which: str) -> list[Choice]:
        """All that PyTorch tries to find the fastest."""
        found: list[Choice] = []
        with self._closing():
            found.extend(self._plans(problem, which, (_QUICK, _FALLBACK), _ALL))
        return found

    def cuts(self, problem: Any, which: str) -> bool:
        """Whether the quick look lists a few kernels only: the one that a closer look puts first is not there."""
        with self._closing():
            best = next(self._plans(problem, which, (_CLOSER,), _TRIES), None)
            listed = {plan.engine for plan in self._plans(problem, which, (_QUICK,), _ALL)}
            return best is not None and best.engine not in listed
        return False

    @contextmanager
    def _closing(self) -> Iterator[None]:
        try:
            yield
        except CudnnError:
            pass
        finally:
            while self._open:
                self._library.cudnnBackendDestroyDescriptor(self._open.pop())

    def _plans(
        self, problem: Any, which: str, rankings: Sequence[int], most: int
    ) -> Iterator[Choice]:
        graph = self._graph(problem, which)
        for ranking in rankings:
            heuristics = self._create(_Is.HEURISTICS)
            self._link(heuristics, 201, graph)
            self._set(heuristics, 200, _Of.HEURISTIC, 1, ctypes.byref(ctypes.c_int(ranking)))
            self._link(heuristics, 204, self._device)
            self._finalize(heuristics)
            for config in self._configs(heuristics, most):
                plan = self._plan(problem, config)
                if plan is not None:
                    yield plan

    def _configs(self, heuristics: ctypes.c_void_p, most: int) -> Iterator[ctypes.c_void_p]:
        """The first is asked for alone: to list the others takes half of the time, and few are ever needed."""
        first = self._descriptors(heuristics, 202, _Is.CONFIG, 1)
        yield from first
        if first:
            yield from self._descriptors(heuristics, 202, _Is.CONFIG, most)[1:]

    def _plan(self, problem: Any, config: ctypes.c_void_p) -> Choice | None:
        engine = self._descriptors(config, 300, _Is.ENGINE, 1)[0]
        notes = self._numbers(engine, 1303, _Of.NOTE, ctypes.c_int, 32)
        if problem.dtype == torch.float32 and _DOWN_CONVERTS in notes:
            return None
        if problem.dtype == torch.float32 and _TENSOR_CORES in notes and not allows_tf32():
            return None
        if is_deterministic() and _NONDETERMINISTIC in notes:
            return None
        plan = self._create(_Is.PLAN)
        self._link(plan, 407, self._device)
        self._link(plan, 401, config)
        if self._library.cudnnBackendFinalize(plan) != 0:
            return None
        workspace = self._numbers(plan, 402, _Of.INT64, ctypes.c_int64, 1)[0]
        index = self._numbers(engine, 1301, _Of.INT64, ctypes.c_int64, 1)[0]
        return Choice(index, self._knobs(config), workspace)

    def _graph(self, problem: Any, which: str) -> ctypes.c_void_p:
        kind, first = _OPERATIONS[which]
        convolution = self._create(_Is.CONVOLUTION)
        self._set(convolution, 100, _Of.DATA_TYPE, 1, ctypes.byref(ctypes.c_int(0)))
        self._set(convolution, 101, _Of.MODE, 1, ctypes.byref(ctypes.c_int(1)))
        lists = (
            (102, problem.dilation),
            (103, problem.stride),
            (104, problem.padding),
            (105, problem.padding),
        )
        for name, values in (*lists, (106, [len(problem.stride)])):
            self._list(convolution, name, values)
        self._finalize(convolution)
        operation = self._create(kind)
        for name in (first, first + 1):
            scale = ctypes.c_float(1.0 if name == first else 0.0)
            self._set(operation, name, _Of.FLOAT, 1, ctypes.byref(scale))
        self._link(operation, first + 2, convolution)
        for place, (letter, sizes) in enumerate(
            zip("wxy", (problem.w, problem.x, problem.y)), start=3
        ):
            self._link(operation, first + place, self._tensor(ord(letter), sizes, problem))
        self._finalize(operation)
        graph = self._create(_Is.GRAPH)
        self._link(graph, 801, operation)
        self._finalize(graph)
        return graph

    def _tensor(self, name: int, sizes: Sequence[int], problem: Any) -> ctypes.c_void_p:
        tensor = self._create(_Is.TENSOR)
        self._set(tensor, 901, _Of.DATA_TYPE, 1, ctypes.byref(ctypes.c_int(_DTYPES[problem.dtype])))
        self._list(tensor, 902, sizes)
        self._list(tensor, 903, _strides(sizes, problem.channels_last))
        self._list(tensor, 906, [name])
        self._list(tensor, 900, [_ALIGNMENT])
        self._finalize(tensor)
        return tensor

    def _knobs(self, config: ctypes.c_void_p) -> dict[int, int]:
        knobs = {}
        found = self._descriptors(config, 302, _Is.KNOB, _FEW_KNOBS)
        if len(found) == _FEW_KNOBS:
            found = self._descriptors(config, 302, _Is.KNOB, _ALL_KNOBS)
        for knob in found:
            kind = self._numbers(knob, 600, _Of.KNOB, ctypes.c_int, 1)[0]
            knobs[kind] = self._numbers(knob, 601, _Of.INT64, ctypes.c_int64, 1)[0]
        return knobs

    def _create(self, kind: int) -> ctypes.c_void_p:
        descriptor = ctypes.c_void_p()
        self._check(self._library.cudnnBackendCreateDescriptor(kind, ctypes.byref(descriptor)))
        self._open.append(descriptor)
        return descriptor

    def _finalize(self, descriptor: ctypes.c_void_p) -> None:
        self._check(self._library.cudnnBackendFinalize(descriptor))

    def _set(
        self, descriptor: ctypes.c_void_p, name: int, kind: int, count: int, value: Any
    ) -> None:
        self._check(self._library.cudnnBackendSetAttribute(descriptor, name, kind, count, value))

    def _link(self, descriptor: ctypes.c_void_p, name: int, other: ctypes.c_void_p) -> None:
        self._set(descriptor, name, _Of.DESCRIPTOR, 1, ctypes.byref(other))

    def _list(self, descriptor: ctypes.c_void_p, name: int, values: Sequence[int]) -> None:
        self._set(descriptor, name, _Of.INT64, len(values), (ctypes.c_int64 * len(values))(*values))

    def _numbers(
        self, descriptor: ctypes.c_void_p, name: int, kind: int, of: Any, most: int
    ) -> list[int]:
        values, count = (of * most)(), ctypes.c_int64()
        get = self._library.cudnnBackendGetAttribute
        self._check(get(descriptor, name, kind, most, ctypes.byref(count), values))
        return list(values[: count.value])

    def _descriptors(
        self, owner: ctypes.c_void_p, name: int, kind: int, most: int
    ) -> list[ctypes.c_void_p]:
        values = (ctypes.c_void_p * most)(*[self._create(kind) for _ in range(most)])
        count = ctypes.c_int64()
        get = self._library.cudnnBackendGetAttribute
        self._check(get(owner, name, _Of.DESCRIPTOR, most, ctypes.byref(count), values))
        return [ctypes.c_void_p(value) for value in values[: min(most, count.value)]]

    @staticmethod
    def _check(status: int) -> None:
        if status != 0:
            raise CudnnError(f"cuDNN answered {status}")


def _strides(sizes: Sequence[int], channels_last: bool) -> list[int]:
    order = [0, *range(2, len(sizes)), 1] if channels_last else list(range(len(sizes)))
    strides, running = [0] * len(sizes), 1
    for dimension in reversed(order):
        strides[dimension] = running
        running *= sizes[dimension]
    return strides
