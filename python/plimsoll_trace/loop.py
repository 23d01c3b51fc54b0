"""The loop that is traced: batch, forward, backward, optimizer, and what stays alive between steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import torch

from plimsoll.progress import report_progress

from . import ledger as kinds
from .module_names import ModuleNames
from .observer import Observer
from .workload import Settings, Workload


class Loop:
    def __init__(
        self,
        observer: Observer,
        workload: Workload,
        settings: Settings,
        optimizer: Any | None,
        names: ModuleNames,
    ):
        self.observer = observer
        self.ledger = observer.ledger
        self.workload = workload
        self.settings = settings
        self.optimizer = optimizer
        self.names = names

    def run(self) -> None:
        # The last step's batch, result and loss live until the next step's replace them.
        batch = result = loss = None
        # With gradients that are added up, two batches for each step show all that more would.
        each = 2 if self.settings.training and self.settings.accumulation > 1 else 1
        steps = self.settings.steps * each
        for step in range(1, steps + 1):
            report_progress("step", step, steps)
            self._phase(step, "batch", kinds.BATCH)
            batch = self.workload.batch()
            self._phase(step, "forward", kinds.ACTIVATION)
            if not self.settings.training:
                with torch.no_grad(), self._autocast():
                    result = self.workload.forward(self.workload.model, batch)
                self._phase(step, "end", kinds.TEMPORARY)
                if self.settings.keep != "outputs":
                    result = None
                continue
            if self.workload.loss is None:
                with self._autocast():
                    loss, result = _with_rest(self.workload.forward(self.workload.model, batch))
            else:
                with self._autocast():
                    result = self.workload.forward(self.workload.model, batch)
                    loss = self.workload.loss(result, batch)
                if self.settings.keep == "loss":
                    result = None
            self._backward(step, loss)
            if step % each == 0:
                self._optimizer_step(step, first=step == each)
        self.ledger.close()
        del batch, result, loss

    def _backward(self, step: int, loss: Any) -> None:
        self._phase(step, "backward", kinds.TEMPORARY)
        loss.backward()
        self.names.forget()
        for name, parameter in self.workload.model.named_parameters():
            if parameter.grad is not None:
                self._label(parameter.grad, kinds.GRADIENT, name)

    def _optimizer_step(self, step: int, *, first: bool) -> None:
        self._phase(step, "optimizer", kinds.TEMPORARY)
        if self.optimizer is None:
            # The step is the host's.
            self._phase(step, "end", kinds.TEMPORARY)
            self.workload.model.zero_grad(set_to_none=True)
            return
        self.optimizer.step()
        if first:
            for tensor in state_tensors(getattr(self.optimizer, "state", {})):
                self._label(tensor, kinds.OPTIMIZER, "")
        self._phase(step, "end", kinds.TEMPORARY)
        self.optimizer.zero_grad(set_to_none=True)

    def _label(self, tensor: Any, category: str, name: str) -> None:
        ident = self.observer.ident_of(tensor)
        if ident:
            self.ledger.label(ident, category, name.rpartition(".")[0])

    def _autocast(self):
        dtype = self.settings.autocast_dtype
        # Inference runs in inference mode, where autocast keeps no copies of weights.
        kept = self.settings.training
        return torch.autocast("cuda", dtype=dtype, cache_enabled=kept) if dtype else nullcontext()

    def _phase(self, step: int, name: str, category: str) -> None:
        self.ledger.mark(f"step:{step}:{name}")
        self.observer.category = category


def state_tensors(state: Any) -> Iterator[Any]:
    """However deep an optimizer keeps them."""
    if isinstance(state, torch.Tensor):
        yield state
    elif isinstance(state, Mapping):
        for value in state.values():
            yield from state_tensors(value)
    elif isinstance(state, (list, tuple)):
        for value in state:
            yield from state_tensors(value)


def _with_rest(returned: Any) -> Any:
    """A loss may come with more, which then lives as long as the loss does."""
    if isinstance(returned, (tuple, list)):
        return returned[0], returned[1:]
    return returned, None
