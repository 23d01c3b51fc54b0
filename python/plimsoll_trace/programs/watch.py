"""What a program is doing: its phases, its steps, and when enough of it was seen."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import _disable_current_modes

from plimsoll.progress import report_progress

from .. import ledger as kinds
from .. import small_values
from ..loop import state_tensors
from ..weak_table import WeakTable

# Small parameters that a step changed.
#
# A span, a temperature or a gate that a model learns is read by the program, and may say how much it keeps. By how much
# a step changes it is not known, but the first steps change little: it stays about what it was initialised with.

# Not nothing: a program may ask whether a step changed them.
_CHANGE = 1e-4


def values_before(optimizer: Any) -> list[tuple[Any, Any]]:
    """The parameters that are about to be changed, with what is known of them."""
    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
        found = [
            (parameter, value.detach())
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None and (value := _known(parameter)) is not None
        ]
        if not found:
            return []
        # All at once: a model has hundreds, and they change in each step.
        changed = torch._foreach_add([value for _, value in found], _CHANGE)
    return [(parameter, value) for (parameter, _), value in zip(found, changed)]


def keep(before: list[tuple[Any, Any]]) -> None:
    """After the step, for those of which nothing is known any more."""
    with torch._C.DisableTorchFunction():
        for parameter, value in before:
            if not small_values.is_likely(parameter) and parameter.shape == value.shape:
                small_values.remember(parameter, value)


def _known(parameter: Any) -> Any:
    value = small_values.held_by(parameter)
    if not isinstance(value, torch.Tensor) or not small_values.is_known(parameter):
        return None
    return value if value.dtype.is_floating_point else None


BUILDING, FIRST, STEADY = "building", "first steps", "steady steps"
EVALUATION, SAVING, GENERATING = "evaluation", "saving", "generating"
# The optimizer makes its state in the first step; in the second, all of it is there.
_FIRST_STEPS = 2
# Steps that are run before a program may be ended.
_LEAST_STEPS = 4
# A program that shows nothing new for so many ops is taken to go on like that. Some 100 ops take 10 ms.
_OPS_WITHOUT_NEWS = 40_000
# A peak that is higher by so much is new: another stage of a training, with all layers or larger images.
_NEW_PEAK = 1.01
# In all: about half a minute.
_MAX_OPS = 220_000
# As many again until the first step, where an optimizer was made: games that fill a memory before it. At least so many
# are left from there on.
_OPS_FROM_FIRST_STEP = 110_000
# A program that made so many steps in host memory, and put nothing on the GPU, trains there.
_STEPS_ON_HOST = 10
# The next turn of a loop may take so much more than the last one.
_MARGIN = 1.25


class Stages:
    """Trainings in stages: an optimizer whose parameters another has taken over no longer steps.

    A program that trains the head of a network first, and then all of it, makes a second optimizer and keeps the
    first. To wait for steps of the first would run all batches of each epoch.
    """

    def __init__(self) -> None:
        # By the `id` of an optimizer that exists: its parameters, and those that it may have taken over from.
        self._parameters: dict[int, set[int]] = {}
        self._earlier: dict[int, set[int]] = {}
        self._over: set[int] = set()

    def made(self, optimizer: Any, steps_of: dict[int, int]) -> None:
        """steps_of: how many each of the others has made."""
        mine = {id(one) for group in optimizer.param_groups for one in group["params"]}
        others = [key for key, parameters in self._parameters.items() if parameters & mine]
        self._parameters[id(optimizer)] = mine
        self._earlier[id(optimizer)] = {key for key in others if steps_of.get(key)}

    def stepped(self, key: int) -> None:
        """Those it took over from are over, unless one of them steps again: then both are used in turn."""
        self._over |= self._earlier.pop(key, set())
        self._over.discard(key)
        for earlier in self._earlier.values():
            earlier.discard(key)

    def gone(self, key: int) -> None:
        self._parameters.pop(key, None)
        self._earlier.pop(key, None)
        self._over.discard(key)
        for earlier in self._earlier.values():
            earlier.discard(key)

    def is_over(self, key: int) -> bool:
        return key in self._over


# Sizes of one optimizer's steps, of which some rise and some fall: data that only grow, or a few kinds of steps, are
# no batches of different shapes.
_LEAST_SIZES = 4
_LEAST_CHANGES = 2
# Of single passes nearly all have a size of their own: losses of several kinds come again in each step.
_LEAST_PASSES = 8
_OWN_SHARE = 0.75


class StepSizes:
    """Whether the steps of a training differ in size, where no loader tells: batches from a generator, drawn sizes.

    What the largest backward pass of a step asks for follows the shapes of its batch. It is the same for all steps
    of an optimizer, or one of a few where a program does something seldom, such as a penalty in every 16th step.
    How many passes a step adds up says nothing: batches that are left out are missing from it. Where a step adds up
    many, few steps are seen, and their single passes tell.
    """

    def __init__(self) -> None:
        # By the passes since the last step.
        self._asked: list[int] = []
        # Batches of loaders so far.
        self._given = 0
        # By optimizer: the sizes of steps and of passes, and the batches that were given before its last step.
        self._of: dict[int, list[int]] = {}
        self._passes: dict[int, list[int]] = {}
        self._seen: dict[int, int] = {}

    def was_given(self) -> None:
        """By a loader, which tells itself whether its batches differ. Its last one may be shorter."""
        self._given += 1

    def went_backward(self, asked: int) -> None:
        """A backward pass asked for so many bytes."""
        self._asked.append(asked)

    def stepped(self, optimizer: int) -> None:
        if self._seen.get(optimizer, 0) == self._given:
            self._of.setdefault(optimizer, []).append(max(self._asked, default=0))
            self._passes.setdefault(optimizer, []).extend(self._asked)
        self._seen[optimizer] = self._given
        self._asked = []

    def differ(self) -> bool:
        steps = any(_is_ragged(sizes, _LEAST_SIZES) for sizes in self._of.values())
        return steps or any(
            _is_ragged(sizes, max(_LEAST_PASSES, int(_OWN_SHARE * len(sizes))))
            for sizes in self._passes.values()
        )


def _is_ragged(sizes: list[int], least_sizes: int) -> bool:
    pairs = list(zip(sizes, sizes[1:]))
    rises = sum(later > earlier for earlier, later in pairs)
    falls = sum(later < earlier for earlier, later in pairs)
    return len(set(sizes)) >= least_sizes and min(rises, falls) >= _LEAST_CHANGES


class Finished(BaseException):
    """Ends a program whose phases were seen. Not an Exception, so that no program catches it."""


class Watch:
    def __init__(self, observer: Any, names: Any) -> None:
        self.observer = observer
        self.names = names
        self.phase = ""
        self.optimizer_steps = 0
        self.backwards = 0
        self.calls = 0
        self.depth = 0
        self.running = True
        # Steps of each optimizer that exists.
        self.steps_of: dict[int, int] = {}
        self._stages = Stages()
        # To ask whether two tensors are equal would be an op.
        self._trained: WeakTable[None] = WeakTable()
        self._trains = False
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        self._counted: WeakTable[None] = WeakTable()
        self._count = self._bytes = 0
        self._news = 0
        self._most_ops = _MAX_OPS
        self._peak = 0
        self._seen: dict[str, int] = {}
        self._inside: str | None = None
        # Whether a trainer ends its epochs itself after a few batches.
        self.short_epochs = False
        # After so many it trains on, and reads; 0 where its real epochs do not reach the end of a loader.
        self.epoch_ends = {"train": 0, "read": 0}
        # Whether nothing else, such as a number of steps, ends its real training within an epoch.
        self.whole_epochs = False
        # Whether turns of a loop, or batches, were left out, so that the program is not what it was.
        self.left_out = False
        self.left_turns_out = False
        self.step_sizes = StepSizes()
        # The loop of the program that asks a loader for its next batch.
        self.batch_loop: Any = None
        # Whether any weights were read from a file.
        self.loads_weights = False
        # What turns that were left out may have held on to.
        self.more_bytes = 0
        # Whether it was ended, so that all that would have followed is unknown.
        self.ended = False
        # Whether the loader at hand is only read, as in an evaluation.
        self._reads = False
        # Small parameters that the step at hand changes.
        self._changing: list[tuple[Any, Any]] = []
        # Whether parts of a step are marked, as DDP needs: what it frees late depends on them.
        self.marks_steps = False
        self.enter(BUILDING)

    # Phases.
    def enter(self, phase: str) -> None:
        if phase == self.phase or not self.running:
            return
        self.phase = phase
        self.observer.ledger.mark("phase:" + phase)
        if phase not in self._seen:
            self._news = self.observer.ops
            report_progress("program", doing=phase)
        self._seen[phase] = self._seen.get(phase, 0) + 1
        self.observer.category = kinds.WEIGHT if phase == BUILDING else kinds.TEMPORARY

    @contextmanager
    def within(self, phase: str) -> Iterator[None]:
        """A phase that a call makes: saving, or generating."""
        if self._inside is not None:
            yield
            return
        before, self._inside = self.phase, phase
        self.enter(phase)
        try:
            yield
        finally:
            self._inside = None
            self.enter(before)

    def step_phase(self) -> str:
        return FIRST if self.optimizer_steps < _FIRST_STEPS else STEADY

    # What a program calls.
    def module_called(self, module: Any) -> None:
        """At the outermost call of a module."""
        self.calls += 1
        self.learn(module)
        if self._inside is not None:
            return
        if torch.is_grad_enabled() and (module.training or not self._trains):
            self.enter(self.step_phase())
            self.observer.category = kinds.ACTIVATION
        elif not module.training and (self._reads or not self.steps_of or self._is_trained(module)):
            self.enter(EVALUATION)
        elif self.phase == BUILDING:
            self.enter(self.step_phase())

    def batch_given(self, reads: bool) -> None:
        """What is moved to the GPU next is the batch."""
        self.observer.category = kinds.BATCH
        self._reads = reads
        self.step_sizes.was_given()

    def backward_begins(self) -> None:
        self.backwards += 1
        self._reads = False
        if self._inside is None:
            self.enter(self.step_phase())
        self.observer.category = kinds.TEMPORARY
        self._mark("backward")

    def optimizer_made(self, optimizer: Any) -> None:
        self._stages.made(optimizer, self.steps_of)
        self.steps_of[id(optimizer)] = 0
        self.news()
        # Not held: a program may train one model after another, each gone when the next is made.
        weakref.finalize(optimizer, self._optimizer_gone, id(optimizer))
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._trained.add(parameter, None)
                self._trains = True

    def _optimizer_gone(self, key: int) -> None:
        self.steps_of.pop(key, None)
        self._stages.gone(key)

    def steps_since(self, before: dict[int, int]) -> list[int]:
        """Of each optimizer that may step again, since there were so many."""
        counted = self.steps_of.items()
        return [n - before.get(key, 0) for key, n in counted if not self._stages.is_over(key)]

    def optimizer_begins(self, optimizer: Any) -> None:
        if self._inside is None:
            self.enter(self.step_phase())
        self.observer.category = kinds.TEMPORARY
        self._mark("optimizer")
        with torch._C.DisableTorchFunction():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._label(parameter.grad, kinds.GRADIENT)
        self._changing = values_before(optimizer)

    def optimizer_ends(self, optimizer: Any) -> None:
        self._mark("end")
        keep(self._changing)
        self._changing = []
        self.step_sizes.stepped(id(optimizer))
        if self.optimizer_steps == 0:
            self._most_ops = max(_MAX_OPS, self.observer.ops + _OPS_FROM_FIRST_STEP)
        self._stages.stepped(id(optimizer))
        steps = self.steps_of.get(id(optimizer), 0)
        self.steps_of[id(optimizer)] = steps + 1
        self.optimizer_steps = max(self.optimizer_steps, steps + 1)
        if min(self.optimizer_steps, self.backwards) >= _STEPS_ON_HOST and not self.steps_seen():
            self.finish()
        if steps == 0:
            for tensor in state_tensors(getattr(optimizer, "state", {})):
                self._label(tensor, kinds.OPTIMIZER)

    def _mark(self, part: str) -> None:
        if self.marks_steps:
            self.observer.ledger.mark(f"rank:{self.optimizer_steps + 1}:{part}")

    # When it is enough.
    def ticked(self) -> None:
        """After each op: ends a program that goes on and on."""
        ops, peak = self.observer.ops, self.observer.ledger.peak_bytes
        if peak > self._peak * _NEW_PEAK:
            self._peak, self._news = peak, ops
        if ops > self._limit() or self._shows_nothing_new(ops):
            self.finish()

    def would_end(self, taken: int, trains: bool = True) -> bool:
        """After a turn of so many ops: whether the next would end the program, or leave nothing for what follows.

        A turn that showed something new may be followed by one that does, such as one with larger images.
        """
        ops = self.observer.ops
        later = ops + int(taken * _MARGIN)
        most = self._limit() - _OPS_WITHOUT_NEWS
        if not trains and 0 < self.optimizer_steps < _LEAST_STEPS:
            # Samples that are drawn after the first step: half of it is for the steps that follow.
            most //= 2
        if later > most:
            return True
        return ops - self._news >= taken and self._shows_nothing_new(later)

    def _limit(self) -> int:
        return self._most_ops if self.optimizer_steps or not self.steps_of else 2 * _MAX_OPS

    def _shows_nothing_new(self, ops: int) -> bool:
        return ops - self._news > _OPS_WITHOUT_NEWS and self.optimizer_steps >= _LEAST_STEPS

    def news(self) -> None:
        self._news = self.observer.ops

    def leaves_out(self) -> None:
        self.left_out = self.left_turns_out = True
        self.news()

    def finish(self) -> None:
        if self.running:
            self.running, self.ended = False, True
            self.observer.on_op = None
            raise Finished()

    def steps_seen(self) -> bool:
        return self.observer.ledger.peak_bytes > 0

    def has_computed(self) -> bool:
        """On the GPU, or in host memory."""
        return bool(self.calls or self.backwards or self.optimizer_steps)

    def parameters(self) -> Any:
        """How many, and their bytes, of all models that were run."""
        return self._count, self._bytes

    def learn(self, module: Any) -> None:
        """Counts the parameters of a model, and remembers their names."""
        if module in self._known:
            return
        self.names.learn_more(module)
        if any(map(is_lazy, module.parameters())):
            # They get their shapes in the first call, and are counted at the next.
            return
        self._known.add(module)
        for parameter in module.parameters():
            # A flat one of FSDP holds a part of others, which were counted.
            if parameter not in self._counted and not getattr(parameter, "_is_flat_param", 0):
                self._counted.add(parameter, None)
                self._count += parameter.numel()
                self._bytes += parameter.numel() * parameter.element_size()
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            self._label(tensor, kinds.WEIGHT, name)

    def _is_trained(self, module: Any) -> bool:
        return any(p in self._trained for p in module.parameters())

    def _label(self, tensor: Any, category: str, name: str = "") -> None:
        with torch._C.DisableTorchFunction():
            on_meta = isinstance(tensor, torch.Tensor) and tensor.device.type == "meta"
            ident = self.observer.ident_of(tensor) if on_meta else 0
        if ident:
            self.observer.ledger.label(ident, category, name.rpartition(".")[0])
