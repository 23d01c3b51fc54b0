"""Puts back what a failed step has changed: gradients, counters, running statistics, random state, optimizer."""

from __future__ import annotations

import ctypes
import dataclasses
import inspect
import logging
import random
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import FrameType
from typing import Any, Callable

from ..arguments import one_of
from ..failure import JOB_FAILED, Failure
from ..memory.gauge import HostGauge

# PyTorch's own optimizers after their first step: a few counters tell whether a step has begun.


def is_of_torch(optimizer: Any) -> bool:
    return f"{type(optimizer).__module__}.".startswith("torch.optim.")


def began(state: Any) -> bool:
    """Whether the state of a parameter, made in a step, has been counted yet."""
    step = state.get("step", 0)
    return bool(step._version > 0 if hasattr(step, "_version") else step > 0)


class Counted:
    """What such an optimizer held before its step.

    It counts the step of a parameter before it changes anything else of it. Within a group it goes through parameters
    of one device and type together, those in their order; which of them come first is not said. So the first counter
    of each device and type tells whether a step has begun, where all states would take a hundred times as long to
    look at.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._is_known = is_of_torch(optimizer)
        self._alike: list[list[Any]] = []
        self._sizes: list[int] = []
        self.forget()

    def forget(self) -> None:
        self._known = 0
        self._counters: list[tuple[Any, int]] = []

    def mark(self) -> bool:
        """False without such counters: before the first step, where they are plain numbers, in others' optimizers."""
        state = self._optimizer.state
        if not self._is_known or not state:
            return False
        firsts = [_first(alike) for alike in self._parameters()]
        try:
            counters = [state[one]["step"] for one in firsts if one in state]
            self._counters = [(one, one._version) for one in counters]
        except (AttributeError, KeyError, TypeError):
            return False
        self._known = len(state)
        return bool(counters)

    def _parameters(self) -> list[list[Any]]:
        """Parameters by group, device and type; made again when parameters were added."""
        groups = [group["params"] for group in self._optimizer.param_groups]
        sizes = list(map(len, groups))
        if sizes != self._sizes:
            self._alike = [alike for group in groups for alike in _by_kind(group)]
            self._sizes = sizes
        return self._alike

    def changes(self) -> int:
        """How many groups and new states show that the step had begun."""
        moved = sum(one._version != before for one, before in self._counters)
        return moved + sum(began(self._optimizer.state[one]) for one in self._made())

    def put_states_back(self) -> None:
        """Takes away what the step began to make: states of parameters that had none."""
        for parameter in self._made():
            del self._optimizer.state[parameter]

    def _made(self) -> list[Any]:
        """States are added at the end, and those that are there stay as they are made."""
        return list(self._optimizer.state)[self._known :]


def _by_kind(parameters: list[Any]) -> Iterable[list[Any]]:
    kinds: dict[Any, list[Any]] = {}
    for one in parameters:
        kinds.setdefault((one.device, one.dtype), []).append(one)
    return kinds.values()


def _first(parameters: list[Any]) -> Any:
    """The first that the step will change."""
    return next((one for one in parameters if one.grad is not None), None)


# Gradients between microbatches: which a failed backward wrote to, and how they are put back.


class Gradients:
    """The gradients of a model and an optimizer, with a mark to compare them to.

    A backward that fails may have added to some of them already. Versions tell which: they cost no
    memory, where a copy of all gradients would cost as much as the gradients.
    """

    def __init__(self, parameters: Iterable[Any]) -> None:
        self._parameters: list[Any] = list({id(p): p for p in parameters}.values())
        self._grads: list[Any] = []
        self._versions: list[int] = []
        self._fresh = True
        self._seen_clear = False

    @property
    def parameters(self) -> list[Any]:
        return self._parameters

    def are_clear(self) -> bool:
        self._seen_clear = all(p.grad is None for p in self._parameters)
        return self._seen_clear

    def mark(self) -> None:
        if self._seen_clear:
            # Just looked at: to read them all takes as long as a small kernel.
            self.forget_marks()
            self._seen_clear, self._fresh = False, True
            return
        self._grads = [p.grad for p in self._parameters]
        self._versions = [-1 if grad is None else grad._version for grad in self._grads]
        self._fresh = all(grad is None for grad in self._grads)

    def touched(self) -> bool:
        if self._fresh:
            return any(p.grad is not None for p in self._parameters)
        return any(
            p.grad is not grad or (grad is not None and grad._version != version)
            for p, grad, version in zip(self._parameters, self._grads, self._versions)
        )

    def put_back(self) -> bool:
        """Back to the mark; False where that takes doing the finished microbatches again."""
        if not self.touched():
            return True
        if self._fresh:
            self.clear()
            return True
        return False

    def held_bytes(self) -> int:
        grads = [p.grad for p in self._parameters if p.grad is not None]
        return sum(grad.numel() * grad.element_size() for grad in grads)

    def forget_marks(self) -> None:
        self._grads, self._versions, self._fresh = [], [], False

    def clear(self) -> None:
        self.forget_marks()
        for parameter in self._parameters:
            parameter.grad = None


# Lets go of the graph that a failed microbatch made, where variables that live on still hold it.

# Outputs of models are dicts or data classes of tensors, lists of layers in them; deeper lies something else.
DEEPEST = 4
MAX_VALUES = 10_000


def mark() -> int | None:
    """The number that the next operation with a gradient gets; None without torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    next_number = getattr(torch.autograd, "_get_sequence_nr", None)
    if next_number is not None:
        return int(next_number())
    with torch.enable_grad():
        node = torch.zeros((), requires_grad=True, device="cpu").clone().grad_fn
    number = getattr(node, "_sequence_nr", None)
    return None if number is None else number()


def let_go(frame: FrameType | None, since: int | None) -> None:
    """Detaches and empties the tensors among a frame's variables that were made since a mark.

    The frame goes on: its `loss` or `outputs` would keep all activations alive until they are assigned again,
    which is after the next forward. A single number keeps its value.
    """
    if frame is None or since is None:
        return
    torch = sys.modules["torch"]
    for tensor in _tensors(_variables(frame), torch.Tensor):
        node = tensor.grad_fn
        number = getattr(node, "_sequence_nr", None)
        if number is None or number() < since:
            continue
        del node, number
        is_number = tensor.numel() == 1
        try:
            tensor.detach_()
        except RuntimeError:
            # A view cannot be detached in place; without its data it holds the graph, and no values.
            pass
        if not is_number:
            tensor.data = tensor.new_empty(0)


def _variables(frame: FrameType) -> list[Any]:
    found = frame.f_locals
    values = list(found.values())
    # Before Python 3.13 this is a copy that the frame keeps, and with it every value in it.
    if isinstance(found, dict) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        found.clear()
    return values


def _tensors(values: list[Any], kind: type) -> Iterator[Any]:
    waiting = [(value, 0) for value in values]
    seen: set[int] = set()
    while waiting and len(seen) < MAX_VALUES:
        value, depth = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, kind):
            yield value
        elif depth < DEEPEST:
            waiting += [(inner, depth + 1) for inner in _inner(value)]


def _inner(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return list(vars(value).values()) if hasattr(value, "__dict__") else []
    return []


# BatchNorm: its running statistics put back before a retry, and said once that it cannot be exact.

log = logging.getLogger("plimsoll")


def batch_norms(model: Any) -> list[Any]:
    from torch.nn.modules.batchnorm import _BatchNorm

    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


class RunningStatistics:
    """Copies of the running means and variances; a few kilobytes."""

    def __init__(self, model: Any) -> None:
        self.modules = batch_norms(model)
        self._live: list[Any] = []
        self._saved: list[Any] = []

    def mark(self) -> None:
        if not self.modules:
            return
        live = [
            buffer
            for module in self.modules
            if module.training
            for buffer in module.buffers(recurse=False)
        ]
        if len(live) != len(self._live) or any(a is not b for a, b in zip(live, self._live)):
            self._live, self._saved = live, [buffer.clone() for buffer in live]
            return
        for saved, buffer in zip(self._saved, live):
            saved.copy_(buffer)

    def put_back(self) -> None:
        for saved, buffer in zip(self._saved, self._live):
            buffer.copy_(saved)

    def warn(self) -> None:
        if self.modules:
            log.warning(
                "plimsoll: this model has BatchNorm: its statistics are computed per microbatch, so training in "
                "microbatches is not exactly the same as in whole batches"
            )


# Random numbers, put back as they were: a retry draws the dropout that the first try drew.

# The state of numpy's own generator. To read it takes 50 microseconds, and most steps never draw from it.

# 624 words and the position in them, as the generator lays them out; compared with what numpy tells before it is used.
RAW_BYTES = 625 * 4

_last: tuple[bytes, Any] | None = None


def numpy_state() -> Any:
    """As `numpy.random.get_state()` gives it; None where numpy is not imported.

    A state that was read before is given again where the generator has not moved since. One that keeps a second
    normal number for the next draw is always read: drawing that number leaves the rest of the state as it was.
    """
    global _last
    numpy = sys.modules.get("numpy")
    random = getattr(numpy, "random", None)
    if random is None:
        return None
    raw = _raw(random)
    if raw is not None and _last is not None and _last[0] == raw:
        return _last[1]
    state = random.get_state()
    _last = (raw, state) if raw is not None and _is_all(raw, state) else None
    return state


def _is_all(raw: bytes, state: Any) -> bool:
    """Whether these bytes are all there is to a state."""
    name, words, position, has_gauss, _ = state
    told: bytes = words.tobytes() + position.to_bytes(4, sys.byteorder)
    return name == "MT19937" and raw == told and not has_gauss


def _raw(random: Any) -> bytes | None:
    """The words of the generator as they lie in memory; None where it is of another kind."""
    find = getattr(random, "get_bit_generator", None)
    generator = find() if find is not None else None
    if generator is None or type(generator) is not getattr(random, "MT19937", None):
        return None
    return ctypes.string_at(generator.ctypes.state_address, RAW_BYTES)


class RandomState:
    """The state of every generator that this process has in use, at one moment."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = numpy_state()
        torch = sys.modules.get("torch")
        self._torch = torch.get_rng_state() if torch is not None else None
        self._cuda = _cuda_states(torch)

    def restore(self) -> None:
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        if self._torch is None:
            return
        torch = sys.modules["torch"]
        torch.set_rng_state(self._torch)
        for index, state in self._cuda:
            torch.cuda.set_rng_state(state, index)

    def as_plain(self) -> dict[str, Any]:
        """For a file: tensors and plain values alone."""
        python = [self._python[0], list(self._python[1]), self._python[2]]
        numpy = None
        if self._numpy is not None:
            name, words, *rest = self._numpy
            numpy = [str(name), [int(word) for word in words], *rest]
        return {"python": python, "numpy": numpy, "torch": self._torch, "cuda": self._cuda}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> RandomState:
        """Of this process where the file does not tell; of cards that are not here nothing."""
        state = cls()
        version, words, gauss = plain["python"]
        state._python = (version, tuple(words), gauss)
        if plain["numpy"] is not None:
            import numpy

            name, values, *rest = plain["numpy"]
            state._numpy = (name, numpy.array(values, dtype=numpy.uint32), *rest)
        state._torch = plain["torch"]
        here = {index for index, _ in state._cuda}
        state._cuda = [(index, one) for index, one in plain["cuda"] if index in here]
        return state


def _cuda_states(torch: Any) -> list[tuple[int, Any]]:
    if torch is None or not torch.cuda.is_initialized():
        return []
    # The generators live on the host: reading them neither waits for a card nor wakes one.
    return [(index, one.get_state()) for index, one in enumerate(torch.cuda.default_generators)]


# `optimizer.step()` that fails half-way: noticed, and rolled back where a copy was kept.


WAYS = ("first", "always", "never")
# An optimizer's states and the temporary copies of its step take less than this many times its parameters.
ROOMY = 6
# A copy may fill the host to half of what it has left: more, and the kernel could end the job for it.
HOST_SHARE = 0.5

_guarded: weakref.WeakSet[Any] = weakref.WeakSet()


def is_guarded(optimizer: Any) -> bool:
    """Whether a guard of ours looks after this optimizer's step."""
    return optimizer in _guarded


class OptimizerGuard:
    """Watches one optimizer's step.

    `first` keeps a copy on the host during the first step only: that one makes the optimizer's
    states and is by far the likeliest to run out of memory. `always` copies before each step.
    """

    def __init__(
        self, optimizer: Any, backup: str = "first", room: Callable[[], int] | None = None
    ) -> None:
        one_of("backup", backup, WAYS)
        self._optimizer = optimizer
        self._backup = backup
        self._room = room
        self._all = Before(optimizer)
        self._counted = Counted(optimizer)
        self._before: Before | Counted = self._all
        self._copies: list[tuple[Any, Any]] | None = None
        self._stepped = False
        self._broken: str | None = None
        if type(optimizer).__weakrefoffset__:
            _guarded.add(optimizer)

    def check(self) -> None:
        """Refuses every step after one that was left half done: the model is broken until it is loaded again."""
        if self._broken is None:
            return
        raise Failure(
            "half-done-step",
            self._broken,
            "load the last checkpoint and make a new step, with backup='always' so that a step can be rolled back",
            status=JOB_FAILED,
        )

    def before_step(self) -> None:
        self._copies = None
        if self._backup != "always" and self._counted.mark():
            self._before = self._counted
            return
        self._before = self._all
        self._all.mark()
        first = self._backup == "first" and not self._all.parameters and not self._stepped
        if self._backup == "always" or (first and not self._is_roomy(self._all.tensors())):
            self._copies = self._copied(self._all.tensors())

    def after_step(self) -> None:
        self._before.forget()
        self._copies = None
        self._stepped = True

    def roll_back(self) -> None:
        """Puts all back as before the step, or refuses: a step must never be applied in part."""
        changed = self._before.changes()
        if self._copies is not None:
            self._write_copies()
        elif changed:
            self._broken = (
                f"optimizer.step() ran out of memory after it had changed {changed} or more of its "
                "parameters and states; going on would train a broken model"
            )
            self.check()
        self._before.put_states_back()

    def _is_roomy(self, tensors: list[Any]) -> bool:
        """Whether so much is free that the first step cannot run out of memory: no copy is needed then."""
        needed = ROOMY * sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return self._room is not None and self._room() >= needed

    def _copied(self, tensors: list[Any]) -> list[tuple[Any, Any]] | None:
        needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        host = HostGauge()
        if needed > HOST_SHARE * (host.capacity_bytes() - host.used_bytes()):
            log.warning("plimsoll: the optimizer's step is not backed up: the host is too full")
            return None
        try:
            return [(tensor, tensor.detach().to("cpu", copy=True)) for tensor in tensors]
        except (MemoryError, RuntimeError) as error:
            log.warning("plimsoll: no room on the host to back up the optimizer's step (%s)", error)
            return None

    def _write_copies(self) -> None:
        import torch

        with torch.no_grad():
            for tensor, copy in self._copies or []:
                tensor.copy_(copy)


class Before:
    """All that an optimizer held before its step, in a few flat lists.

    A dict for each parameter would cost several times as much, and wake Python's collector.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self.forget()

    def forget(self) -> None:
        self.parameters: list[Any] = []
        self._watched: list[Any] = []
        self._versions: list[int] = []
        self._lengths: list[int] = []
        self._keys: list[str] = []
        self._values: list[Any] = []
        self._own: dict[Any, Any] = {}

    def mark(self) -> None:
        state = self._optimizer.state
        states = [one for one in state.values() if isinstance(one, dict)]
        self.parameters = list(state)
        if len(states) < len(state):
            # Beside the states of parameters some keep numbers of their own.
            self._own = {key: one for key, one in state.items() if not isinstance(one, dict)}
            self.parameters = [key for key, one in state.items() if isinstance(one, dict)]
        self._lengths = list(map(len, states))
        self._keys = list(chain.from_iterable(states))
        self._values = list(chain.from_iterable(one.values() for one in states))
        if not all(hasattr(kind, "_version") for kind in set(map(type, self._values))):
            # Lists, as LBFGS keeps them of the past, change in place.
            self._values = [list(one) if isinstance(one, list) else one for one in self._values]
        self._watched = self.tensors()
        self._versions = [tensor._version for tensor in self._watched]

    def _parameters(self) -> list[Any]:
        return [p for group in self._optimizer.param_groups for p in group["params"]]

    def tensors(self) -> list[Any]:
        """All that a step changes and that is there before it."""
        lists = [one for one in self._values if isinstance(one, list)]
        values = chain(self._values, *lists)
        return self._parameters() + [one for one in values if hasattr(type(one), "_version")]

    def changes(self) -> int:
        """How much of what was there, or was made since, shows that the step had begun.

        Fused kernels leave the versions of parameters as they are, but count their steps first.
        """
        states, now = self._states(), self._optimizer.state
        numbers = [
            now.get(parameter, {}).get(key) != value
            for parameter, state in states.items()
            for key, value in state.items()
            if isinstance(value, (int, float))
        ]
        numbers += [
            now.get(key) != one for key, one in self._own.items() if isinstance(one, (int, float))
        ]
        begun = (
            began(state)
            for parameter, state in now.items()
            if parameter not in states and isinstance(state, dict)
        )
        versions = (
            tensor._version != version for tensor, version in zip(self._watched, self._versions)
        )
        return sum(versions) + sum(numbers) + sum(begun)

    def put_states_back(self) -> None:
        """States that the step began to make are made again; some have only a part of their keys."""
        states, now = self._states(), self._optimizer.state
        now.clear()
        now.update({**states, **self._own})

    def _states(self) -> dict[Any, dict[str, Any]]:
        """Each parameter's states as they were; lists in them are copies that may be handed out."""
        values = (list(one) if isinstance(one, list) else one for one in self._values)
        pairs = zip(self._keys, values)
        return {
            parameter: dict(next(pairs) for _ in range(length))
            for parameter, length in zip(self.parameters, self._lengths)
        }
