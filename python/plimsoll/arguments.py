"""Arguments that people give: checked where they come in, with one error that names them.

Each error is a `Failure` (code, fact, next step) and a `TypeError` or `ValueError`, as Python's own are.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
import sys
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, Callable, TypeVar

from .failure import Failure

# Longer waits are none that a person means, and Python's own end with an error somewhere above.
_YEAR_SECONDS = 365 * 24 * 3600
# Bytes of one block that any allocator can be asked for.
_LARGEST_BLOCK = 2**63 - 1


class BadValue(Failure, ValueError):
    """An argument of the right kind that cannot be."""

    def __init__(self, fact: str, next_step: str) -> None:
        super().__init__("bad-argument", fact, next_step)


class BadType(Failure, TypeError):
    """An argument of a kind that cannot be."""

    def __init__(self, fact: str, next_step: str) -> None:
        super().__init__("bad-argument", fact, next_step)


def number(name: str, value: Any, least: float, most: float = math.inf, hint: str = "") -> float:
    """A number from `least` to `most`; not a text or a truth value, however it looks.

    >>> number("interval", 0.1, 0.01)
    0.1
    """
    wanted = f"a number{_range(least, most)}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadType(f"{name} must be {wanted}, not {shown(value)}", hint or f"pass {wanted}")
    if not least <= value <= most or math.isinf(value):
        raise BadValue(f"{name} must be {wanted}, not {value!r}", hint or f"pass {wanted}")
    return float(value)


def seconds(name: str, value: Any, least: float = 0) -> float:
    """How long to wait: up to a year."""
    return number(name, value, least, _YEAR_SECONDS)


def share(name: str, value: Any) -> float:
    """A share of memory, above 0 and up to 1: the one unit of all thresholds.

    A percentage is the usual mistake, so the error says what to write instead.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    hint = f"write {value / 100:g} for {value:g} %" if is_number and 1 < value <= 100 else ""
    given = number(name, value, 0, 1, hint)
    if given == 0:
        raise BadValue(f"{name} must be above 0 and at most 1, not {value!r}", "pass 0.85 for 85 %")
    return given


def whole(name: str, value: Any, least: int) -> int:
    wanted = f"a whole number, {least} or more"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise BadType(f"{name} must be {wanted}; not {shown(value)}", f"pass {wanted}")
    if value < least:
        raise BadValue(f"{name} must be {wanted}; not {value!r}", f"pass {wanted}")
    return int(value)


def size(name: str, value: Any, least: int = 0) -> int:
    """A number of bytes."""
    hint = "write 8 * 2**30 for 8 GiB"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise BadType(f"{name} must be a whole number of bytes, not {shown(value)}", hint)
    if value < least:
        fact = f"{name} must be a whole number of bytes, {least} or more; not {value!r}"
        raise BadValue(fact, hint)
    return int(value)


_FACTORS = {
    "": 1,
    "b": 1,
    **{unit: 2 ** (10 * power) for power, unit in enumerate("kmgt", 1)},
    **{f"{unit}ib": 2 ** (10 * power) for power, unit in enumerate("kmgt", 1)},
    **{f"{unit}b": 1000**power for power, unit in enumerate("kmgt", 1)},
}


def bytes_of(name: str, value: str | int) -> int:
    """A size as people write it, by the rules of the command: `24GiB`, `24GB`, `24g`, or bytes.

    >>> bytes_of("memory", "24GiB")
    25769803776
    """
    if not isinstance(value, str):
        return size(name, value, least=1)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-zA-Z]*)\s*", value)
    factor = _FACTORS.get(match[2].lower()) if match else None
    found = round(float(match[1]) * factor) if match and factor else 0
    if not 0 < found < 2**53:
        raise BadValue(f'{name} must be a size, not "{value[:60]}"', 'write it like "24GiB"')
    return found


def size_words(count: int) -> str:
    """Bytes for people: GiB with one decimal, smaller units below one GiB.

    >>> size_words(34466000000), size_words(640 * 2**20)
    ('32.1 GiB', '640 MiB')
    """
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30)):
        if abs(count) * 1024 >= factor * 1023.5:
            return f"{count / factor:.1f} {unit}"
    for unit, factor in (("MiB", 2**20), ("KiB", 2**10)):
        if abs(count) * 1024 >= factor * 1023.5:
            return f"{count / factor:.0f} {unit}"
    return f"{count} B"


Function = TypeVar("Function", bound=Callable[..., Any])


def named(others: dict[str, str]) -> Callable[[Function], Function]:
    """A function that also takes its arguments in camelCase. For a name of another tool the error says the right one.

    >>> @named({"batch_size": "batch"})
    ... def ask(batch=1, max_batch=False):
    ...     return batch
    >>> ask(maxBatch=True)
    1
    """

    def decorate(function: Function) -> Function:
        parameters = inspect.signature(function).parameters

        @functools.wraps(function)
        def call(*given: Any, **by_name: Any) -> Any:
            for name in list(by_name):
                if name in parameters:
                    continue
                snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
                right = others.get(snake)
                if right is not None and right in parameters:
                    fact = f"{function.__name__}() has no argument {name}; its name is {right}"
                    raise BadType(fact, f"write {right}={shown(by_name[name])}")
                if snake not in parameters:
                    fact = f"{function.__name__}() has no argument {name}"
                    raise BadType(fact, f"it takes {', '.join(parameters)}")
                if snake in by_name:
                    raise BadType(f"{name} and {snake} are the same argument", f"leave {name} out")
                by_name[snake] = by_name.pop(name)
            return function(*given, **by_name)

        return call  # type: ignore[return-value]

    return decorate


def optional_truth(name: str, value: Any) -> bool | None:
    return None if value is None else truth(name, value)


def optional_size(name: str, value: Any, least: int = 0) -> int | None:
    return None if value is None else size(name, value, least)


def truth(name: str, value: Any, hint: str = "") -> bool:
    if not isinstance(value, bool):
        fact = f"{name} must be True or False, not {shown(value)}"
        raise BadType(fact, hint or f"write {name}=True, or leave it out")
    return value


def one_of(name: str, value: Any, choices: Any) -> Any:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        words = ", ".join(map(str, choices))
        raise BadValue(f"{name} must be one of {words}; not {shown(value)}", "pass one of them")
    return value


def function(name: str, value: Any) -> Any:
    """Something to call, or nothing."""
    if value is not None and not callable(value):
        fact = f"{name} must be a function, not {shown(value)}"
        raise BadType(fact, f"pass a function, or leave {name} out")
    return value


def needed_function(name: str, value: Any) -> Any:
    """Something to call that must be there."""
    if not callable(value):
        raise BadType(f"{name} must be a function, not {shown(value)}", "pass a function")
    return value


def text(name: str, value: Any, example: str) -> str:
    if not isinstance(value, str):
        raise BadType(f"{name} must be a text, not {shown(value)}", f'pass one such as "{example}"')
    if not value:
        raise BadValue(f"{name} must not be empty", f'pass one such as "{example}"')
    return value


def path(name: str, value: Any, example: str) -> str:
    """A file or a folder; numbers would be open files, and bytes no name that can be shown."""
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(found, str):
        raise BadType(f"{name} must be a path, not {shown(value)}", f'pass one such as "{example}"')
    if not found or "\0" in found:
        fact = f"{name} must be a path, not {shown(value)}"
        raise BadValue(fact, f'pass one such as "{example}"')
    return found


def mapping(name: str, value: Any, example: str) -> dict[str, Any]:
    """Values by their names, or nothing."""
    if value is not None and not isinstance(value, dict):
        raise BadType(f"{name} must be a dict, not {shown(value)}", f"write {name}={example}")
    return {} if value is None else value


def samples(name: str, value: Any) -> Any:
    """Something to go over: a list, a dataset, or what gives one sample after the other."""
    if not isinstance(value, Iterable) and not hasattr(value, "__getitem__"):
        fact = f"{name} must be a list, a dataset or an iterable, not {shown(value)}"
        raise BadType(fact, "pass the samples themselves")
    return value


def hashable(name: str, value: Any) -> Any:
    """What can be looked up."""
    try:
        hash(value)
    except TypeError:
        fact = f"{name} must be a text, a number or a tuple of them, not {shown(value)}"
        raise BadType(fact, 'pass one such as "clip-17"') from None
    return value


def tensor(name: str, value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        raise BadType(f"{name} must be a tensor of torch, not {shown(value)}", "pass a tensor")
    return value


def shape(name: str, value: Any, dtype: Any) -> tuple[tuple[int, ...], int]:
    """Sizes of a tensor, and its bytes."""
    hint = "pass a tuple such as (256, 3, 224, 224)"
    if not isinstance(value, (tuple, list)):
        raise BadType(f"{name} must be a tuple of whole numbers, not {shown(value)}", hint)
    odd = [one for one in value if isinstance(one, bool) or not isinstance(one, Integral)]
    if odd:
        raise BadType(f"{name} must hold whole numbers, not {shown(odd[0])}", hint)
    least = min(value, default=0)
    if least < 0:
        raise BadValue(f"{name} must hold sizes, 0 or more; not {least!r}", hint)
    sizes = tuple(int(one) for one in value)
    taken = math.prod(sizes) * dtype.itemsize
    if taken > _LARGEST_BLOCK:
        raise BadValue(f"{name} is of {taken} bytes, more than any memory has", hint)
    return sizes, taken


def model(name: str, value: Any) -> Any:
    """A model as PyTorch knows it."""
    from torch import nn

    if not isinstance(value, nn.Module):
        fact = f"{name} must be a torch.nn.Module, not {shown(value)}"
        raise BadType(fact, "build or load the model first (plimsoll.load)")
    return value


def optimizer(name: str, value: Any) -> Any:
    """Something with parameter groups, or nothing."""
    if value is not None and not hasattr(value, "param_groups"):
        fact = f"{name} must be an optimizer of torch, not {shown(value)}"
        raise BadType(fact, "pass torch.optim.AdamW(model.parameters()) or another of torch.optim")
    return value


def any_dtype(name: str, value: Any) -> Any:
    """A type of torch; the usual one where none is given."""
    import torch

    if value is not None and not isinstance(value, torch.dtype):
        fact = f"{name} must be a type of torch, not {shown(value)}"
        raise BadType(fact, f"pass {name}=torch.float32, or leave it out")
    return torch.get_default_dtype() if value is None else value


def dtype(name: str, value: Any) -> Any:
    """A floating type of torch, or nothing."""
    # Programs without torch leave it out.
    torch = sys.modules.get("torch")
    if value is None or (torch and isinstance(value, torch.dtype) and value.is_floating_point):
        return value
    fact = f"{name} must be a floating type such as torch.bfloat16, not {shown(value)}"
    raise BadType(fact, f"pass {name}=torch.bfloat16, or leave it out")


def shown(value: Any) -> str:
    """A value in an error: short, and never a whole model or dataset."""
    kind = type(value).__name__
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else f"a {kind}"
    return text if len(text) <= 60 else f"a {kind}"


def _range(least: float, most: float) -> str:
    return f" from {least:g} to {most:.10g}" if math.isfinite(most) else f", {least:g} or more"
