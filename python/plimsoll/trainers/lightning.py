"""Lightning's automatic optimization, under both of its names: forward and backward of a batch in parts that fit."""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import weakref
from typing import Any

from ..recovery.function import RecoveringFunction
from ..recovery.parts import Splitter, join
from . import clipping, status, weighing
from .counting import samples_of
from .handled import handled_by
from .optimizer_retry import OptimizerRetry, may_be_retried
from .split_step import SplitStep

log = logging.getLogger("plimsoll")

KNOWN = ["self", "kwargs", "optimizer", "batch_idx"]
# Elsewhere collectives run inside forward and backward, or the strategy accumulates by itself.
SEPARABLE = ("SingleDeviceStrategy", "DDPStrategy")

_steps: weakref.WeakKeyDictionary[Any, tuple[Any, SplitStep]] = weakref.WeakKeyDictionary()
_said: set[str] = set()


# What a Lightning module logs while a part runs: put back when the part fails, weighed by the part's own size.

_known: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


class Logged:
    """Values of `self.log` and states of torchmetrics at one moment.

    Lightning replaces values and never changes them, so they are kept as they are.
    """

    def __init__(self, trainer: Any) -> None:
        self._results = trainer._results
        self._module = trainer.lightning_module
        self._hook = getattr(self._module, "_current_fx_name", None)
        results = self._results if self._results is not None else {}
        self._values = {key: dict(vars(metric)) for key, metric in results.items()}
        self._states = [(metric, _state(metric)) for metric in _metrics(self._module)]

    def put_back(self) -> None:
        if self._results is not None:
            for key in [key for key in self._results if key not in self._values]:
                del self._results[key]
            for key, values in self._values.items():
                vars(self._results[key]).clear()
                vars(self._results[key]).update(values)
        for metric, state in self._states:
            for name, value in state.items():
                setattr(metric, name, value)
        self._module._current_fx_name = self._hook


class LoggedPart:
    """`with` it, logged means count a part by its own samples, not by those of the whole batch."""

    def __init__(self, trainer: Any, part: Any) -> None:
        self._results = trainer._results
        self._part = part
        self._logged = Logged(trainer)

    def __enter__(self) -> None:
        if self._results is not None:
            self._before = self._results.batch, self._results.batch_size
            self._results.batch, self._results.batch_size = self._part, None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._results is not None:
            self._results.batch, self._results.batch_size = self._before
        if error is not None:
            self._logged.put_back()


def _metrics(module: Any) -> list[Any]:
    """The metrics of torchmetrics that a module owns; looked for once, since a large model has thousands of modules."""
    if module not in _known:
        _known[module] = [one for one in module.modules() if hasattr(one, "_update_count")]
    return _known[module]


def _state(metric: Any) -> dict[str, Any]:
    def kept(value: Any) -> Any:
        if isinstance(value, list):
            return list(value)
        return value.clone() if hasattr(value, "clone") else value

    names = [*metric._defaults, "_update_count", "_computed"]
    return {name: kept(getattr(metric, name)) for name in names if hasattr(metric, name)}


def install_package(name: str) -> None:
    """All of the below in a Lightning that is imported, by the name of its package."""
    for path, act in (
        ("loops.optimization.automatic", install),
        ("loops.optimization.manual", install_manual),
        ("strategies.strategy", install_evaluation),
    ):
        act(importlib.import_module(f"{name}.{path}"))


def install(module: Any) -> None:
    """`module` is loops.optimization.automatic of Lightning."""
    loop = getattr(module, "_AutomaticOptimization", None)
    real = getattr(loop, "_make_closure", None)
    if loop is None or real is None or hasattr(real, "_plimsoll"):
        return
    names = list(inspect.signature(real).parameters)
    if names != KNOWN:
        _say(f"its closure is made of ({', '.join(names)}), which is not known here")
        return

    @functools.wraps(real)
    def make_closure(self: Any, kwargs: Any, optimizer: Any, batch_idx: int) -> Any:
        closure = real(self, kwargs, optimizer, batch_idx)
        if "batch" in kwargs and _is_known(self.trainer, optimizer):
            # Made here: the optimizer's first step, which calls the closure, goes through the guard as well.
            step = _step_for(self, optimizer, kwargs)
            # Not the closure itself: it would hold itself, and with it the batch, until Python's collector comes.
            functions = closure._zero_grad_fn, closure._backward_fn
            closure.closure = functools.partial(_in_parts, self, *functions, kwargs, step)
        return closure

    make_closure.__dict__["_plimsoll"] = True
    loop._make_closure = make_closure
    clipping.install()


def install_manual(module: Any) -> None:
    """`module` is loops.optimization.manual: the program steps by itself, which is said once."""
    loop = getattr(module, "_ManualOptimization", None)
    real = getattr(loop, "run", None)
    if loop is None or real is None or hasattr(real, "_plimsoll"):
        return

    @functools.wraps(real)
    def run(self: Any, *arguments: Any, **named: Any) -> Any:
        _say("manual optimization runs backward and the optimizer's step by itself")
        return real(self, *arguments, **named)

    run.__dict__["_plimsoll"] = True
    loop.run = run


def install_evaluation(module: Any) -> None:
    """`module` is strategies.strategy: batches of validation and test are split as well."""
    strategy = getattr(module, "Strategy", None)
    for name in ("validation_step", "test_step"):
        real = getattr(strategy, name, None)
        if real is not None and not hasattr(real, "_plimsoll"):
            setattr(strategy, name, _evaluation(real))


def _evaluation(real: Any) -> Any:
    def evaluate(batch: Any, strategy: Any, more: Any, named: Any) -> Any:
        with LoggedPart(strategy.lightning_module.trainer, batch):
            return real(strategy, batch, *more, **named)

    function = RecoveringFunction(evaluate)

    @functools.wraps(real)
    def step(self: Any, batch: Any, *more: Any, **named: Any) -> Any:
        if samples_of(batch) is None or handled_by() is not None:
            return real(self, batch, *more, **named)
        status.follow_evaluation(function.calls().fitting)
        return function(batch, self, more, named)

    step.__dict__["_plimsoll"] = True
    return step


def _is_known(trainer: Any, optimizer: Any) -> bool:
    kind = type(trainer.strategy).__name__
    if kind not in SEPARABLE:
        _say(f"{kind} runs collectives inside forward and backward, or accumulates by itself")
        return False
    if not may_be_retried(optimizer):
        _say(f"{type(optimizer).__name__} computes the loss more than once a step")
        return False
    return True


def _say(why: str) -> None:
    if why not in _said:
        _said.add(why)
        log.warning("plimsoll: steps of Lightning are not recovered: %s", why)


def _in_parts(loop: Any, clear: Any, backward: Any, kwargs: Any, step: SplitStep) -> Any:
    """In place of Closure.closure: clears, then forward and backward in parts; the result of the whole batch."""
    import torch

    if clear is not None:
        clear()
    batch = BatchInParts(loop, backward, kwargs)
    with torch.enable_grad():
        loss = step.run(kwargs["batch"], batch.work, batch.restarted)
    batch.finished = True
    if not loop.trainer.fit_loop._should_accumulate():
        step.reduce()
    return _result(loop, loss, step, batch.results)


class BatchInParts:
    """What the parts of one batch returned and logged. A later batch may have it done again: it logs nothing then."""

    def __init__(self, loop: Any, backward: Any, kwargs: Any) -> None:
        self.results: list[Any] = []
        self.finished = False
        self._loop, self._backward, self._kwargs = loop, backward, kwargs
        self._before = Logged(loop.trainer)

    def work(self, part: Any, share: float) -> Any:
        before = Logged(self._loop.trainer) if self.finished else None
        with LoggedPart(self._loop.trainer, part):
            result = self._loop._training_step(type(self._kwargs)(self._kwargs, batch=part))
            if result.closure_loss is None:
                return _nothing()
            if self._backward is not None:
                loss = result.closure_loss
                self._backward(loss if share == 1 else loss * share)
        result.closure_loss = None
        if before is None:
            self.results.append(result)
        else:
            before.put_back()
        return result.loss

    def restarted(self) -> None:
        if not self.finished:
            self.results = []
            self._before.put_back()


def _nothing() -> Any:
    """The loss of a batch that training_step skipped by returning None."""
    import torch

    return torch.zeros(())


def _result(loop: Any, loss: Any, step: SplitStep, done: list[Any]) -> Any:
    """As Lightning keeps it: the loss, and what else training_step returned, put together."""
    kind = loop.output_result_cls
    sizes = step.partitions[-1] if step.partitions else []
    if not done:
        return kind(None)
    if len(sizes) <= 1:
        return done[-1]
    made = kind(loss)
    last = done[-len(sizes) :]
    for key in last[0].extra:
        try:
            made.extra[key] = join([one.extra[key] for one in last], sizes)
        except (TypeError, KeyError):
            made.extra[key] = last[-1].extra.get(key)
    return made


def _step_for(loop: Any, optimizer: Any, kwargs: Any) -> SplitStep:
    known = _steps.get(loop)
    model = loop.trainer.strategy.model
    if known is not None and known[0] == (id(model), id(optimizer)):
        return known[1]
    held = weakref.ref(loop)
    # Without the batch, which would stay alive with them.
    others = type(kwargs)((key, None if key == "batch" else one) for key, one in kwargs.items())

    def rule(batch: Any, count: int, splitter: Splitter) -> str | None:
        living = held()
        return None if living is None else _rule(living, others, batch, count, splitter)

    step = SplitStep(model, optimizer, rule)
    retry = OptimizerRetry(optimizer, step.fitting, step.stepped)
    optimizer.step = retry.method(optimizer.step)
    _steps[loop] = (id(model), id(optimizer)), step
    return step


def _rule(loop: Any, kwargs: Any, batch: Any, count: int, splitter: Splitter) -> str | None:
    trainer = loop.trainer
    logged = Logged(trainer)

    def loss(part: Any) -> Any:
        return loop._training_step(type(kwargs)(kwargs, batch=part)).loss

    coarse = "32" not in str(trainer.precision) and "64" not in str(trainer.precision)
    try:
        return weighing.rule_of(loss, batch, count, splitter, trainer.lightning_module, coarse)
    except Exception as error:
        log.warning("plimsoll: the loss of a few samples could not be computed: %s", error)
        return None
    finally:
        logged.put_back()
