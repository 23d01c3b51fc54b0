"""The default hooks of saved tensors: set for a whole program, and out of the way where PyTorch allows none."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable

import torch

_graph = torch._C._autograd


class DefaultHooks:
    """Of the thread that begins: PyTorch keeps hooks for each thread."""

    def __init__(self, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        self._pack, self._unpack = pack, unpack
        self._thread = threading.get_ident()
        self.is_on = False
        # Out of the way for a moment: `torch.func` allows no hooks.
        self._is_aside = False
        self._real = _graph._saved_tensors_hooks_disable, _graph._saved_tensors_hooks_enable
        real_disable, real_enable = self._real

        def disable(message: str, *rest: Any) -> Any:
            if self.is_on and threading.get_ident() == self._thread:
                self._is_aside = self.off()
            return real_disable(message, *rest)

        def enable() -> Any:
            result = real_enable()
            if self._is_aside and threading.get_ident() == self._thread:
                self._is_aside = False
                self.on()
            return result

        self._ours = disable, enable
        _graph._saved_tensors_hooks_disable, _graph._saved_tensors_hooks_enable = disable, enable

    def on(self) -> None:
        if not self.is_on and threading.get_ident() == self._thread and self._is_allowed():
            _graph._push_saved_tensors_default_hooks(self._pack, self._unpack)
            self.is_on = True

    def off(self) -> bool:
        """Whether they are out of the way now; hooks of others that lie above stay, and ours below them."""
        if self.is_on and threading.get_ident() == self._thread and self._is_top():
            _graph._pop_saved_tensors_default_hooks()
            self.is_on = False
            return True
        return False

    def close(self) -> None:
        self.off()
        if _graph._saved_tensors_hooks_disable is self._ours[0]:
            real_disable, real_enable = self._real
            _graph._saved_tensors_hooks_disable = real_disable
            _graph._saved_tensors_hooks_enable = real_enable

    @contextlib.contextmanager
    def aside(self) -> Any:
        was_on = self.off()
        try:
            yield
        finally:
            if was_on:
                self.on()

    def _is_allowed(self) -> bool:
        return bool(_graph._saved_tensors_hooks_is_enabled())

    def _is_top(self) -> bool:
        top = _graph._top_saved_tensors_default_hooks(False)
        return top is not None and top[0] is self._pack
