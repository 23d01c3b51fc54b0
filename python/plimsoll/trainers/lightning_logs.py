"""What a Lightning module logs while a part runs: put back when the part fails, weighed by the part's own size."""

from __future__ import annotations

import weakref
from typing import Any

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
