"""The optimizer that a script's workload returns: itself, its class, or a function of the parameters."""

from __future__ import annotations

import inspect
from typing import Any

from ...failure import Failure
from ..optimizers import trained


def make(given: Any, model: Any, path: str) -> Any:
    """The optimizer to step with; made for the parameters that learn, where it is not made yet."""
    parameters = trained(model)
    if _is_optimizer(given) and not isinstance(given, type):
        _check_parameters(given, parameters, path)
        made = given
    elif callable(given):
        made = given(parameters)
    else:
        raise _bad(f"workload()['optimizer'] is a {type(given).__name__}", path)
    if not _is_optimizer(made):
        raise _bad(f"workload()['optimizer'] makes a {type(made).__name__}", path)
    _check_step(made, path)
    return made


def _is_optimizer(value: Any) -> bool:
    return callable(getattr(value, "step", None)) and callable(getattr(value, "zero_grad", None))


def _check_parameters(optimizer: Any, parameters: Any, path: str) -> None:
    """One that was made before the model changed would step nothing, and cost nothing."""
    held = {id(p) for group in getattr(optimizer, "param_groups", []) for p in group["params"]}
    if not any(id(p) in held for p in parameters):
        raise Failure(
            "script-bad-optimizer",
            "the optimizer holds none of the parameters that are trained",
            "return a function instead: optimizer=lambda parameters: ...",
            path,
        )


def _check_step(optimizer: Any, path: str) -> None:
    try:
        asked = inspect.signature(optimizer.step).parameters.values()
    except (TypeError, ValueError):
        return
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    if any(p.kind in plain and p.default is inspect.Parameter.empty for p in asked):
        raise Failure(
            "script-bad-optimizer",
            f"{type(optimizer).__name__} calls the loss itself (a closure), which a trace cannot follow",
            "leave the optimizer out of what workload() returns",
            path,
        )


def _bad(fact: str, path: str) -> Failure:
    return Failure(
        "script-bad-optimizer",
        f"{fact}, not an optimizer",
        "return an optimizer, its class, or a function of the parameters that makes one",
        path,
    )
