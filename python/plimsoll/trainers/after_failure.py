"""After an out-of-memory that ends a program: its model's call once more with a few samples, and what a step takes.

A program's own loop cannot be split from outside, so it is started again with a smaller batch. The failure
tells only the least that its batch needs; by halves it would fail again. What is done here changes nothing that
anybody sees any more: the error was printed, nothing of the program runs after it but what it registered for its end.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
import threading
from typing import Any, NamedTuple

from ..bridge import connection, uncaught
from ..failure import Failure
from ..memory.clean_up import drop_dead_frames, give_back_caches
from ..memory.gauge import HostGauge, gauge_of
from ..memory.out_of_memory import recognise
from ..recovery.parts import batch_length, take
from .probing import states_to_come

log = logging.getLogger("plimsoll")

# Below it half of the batch is one sample or none.
LEAST_BATCH = 3

# Read when the allocator gives up, while the program's own settings still hold: (device, dtype), or None.
_autocast: tuple[str, Any] | None = None


class Call(NamedTuple):
    """The outermost call of a model that memory ran out in."""

    model: Any
    given: tuple[Any, ...]
    named: dict[str, Any]

    def inputs(self) -> dict[Any, Any]:
        return {**dict(enumerate(self.given)), **self.named}


def install(_: Any = None) -> None:
    """Where a restart with another batch can follow. Until memory runs out it costs nothing."""
    if stated_batch() is None or connection.current() is None or send in uncaught.after_printed:
        return
    uncaught.after_printed.append(send)
    torch = sys.modules["torch"]
    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if attach is not None and hasattr(torch.cuda, "_lazy_call"):
        torch.cuda._lazy_call(lambda: attach(_remember))


def send(error: BaseException) -> None:
    """Tells the supervisor what was measured."""
    bridge = connection.current()
    try:
        sizes = measure(error)
        if bridge is not None and sizes:
            bridge.send({"type": "measured", "sizes": sizes})
    except (Exception, KeyboardInterrupt) as trouble:
        log.debug("plimsoll: smaller sizes were not measured: %s", trouble)


def _remember(*_: Any) -> None:
    global _autocast
    torch = sys.modules["torch"]
    try:
        on = torch.is_autocast_enabled("cuda")
        _autocast = ("cuda", torch.get_autocast_dtype("cuda")) if on else None
    except Exception as trouble:
        # An older PyTorch asks otherwise. An error here would take the place of the program's own.
        log.debug("plimsoll: autocast was not read: %s", trouble)


def stated_batch() -> int | None:
    """The batch that a restart would change; None where none would."""
    stated = os.environ.get("PLIMSOLL_BATCH_SIZE", "")
    return int(stated) if stated.isdigit() and int(stated) >= LEAST_BATCH else None


def measure(error: BaseException) -> list[dict[str, int]]:
    """Peaks of training steps of a few samples, the optimizer's states with them; none where they tell nothing."""
    batch, gauge = stated_batch(), gauge_of()
    if batch is None or isinstance(gauge, HostGauge) or not _is_alone():
        return []
    call = outermost_call(error.__traceback__)
    if call is None or not _is_whole_step(call, batch):
        return []
    drop_dead_frames(error)
    give_back_caches(of_host=False)
    return _sizes(call, batch, gauge)


def _is_alone() -> bool:
    """Whether the program is over once its error was printed: no other rank, thread or person goes on with it."""
    torch = sys.modules["torch"]
    if sys.flags.interactive or (
        torch.distributed.is_available() and torch.distributed.is_initialized()
    ):
        return False
    return all(one.daemon or one is threading.current_thread() for one in threading.enumerate())


def outermost_call(trace: Any) -> Call | None:
    code = sys.modules["torch"].nn.Module._call_impl.__code__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code is code:
            seen = frame.f_locals
            return Call(seen["self"], tuple(seen["args"]), dict(seen["kwargs"]))
        trace = trace.tb_next
    return None


def _is_whole_step(call: Call, batch: int) -> bool:
    """Whether a call and its backward are all of a step: the batch is whole, and so is what is trained."""
    model = call.model
    # It would be compiled again for each size.
    if hasattr(model, "_orig_mod") or model._compiled_call_impl is not None:
        return False
    if len({p.device for p in model.parameters()}) != 1:
        return False
    # What was computed before is a part of the step that is not seen here.
    if any(one.requires_grad for one in _tensors(call.inputs())):
        return False
    try:
        if batch_length(call.inputs()) != batch:
            return False
    except Failure:
        return False
    trained = {id(p) for one in optimizers() for p in _parameters(one)}
    return bool(trained) and trained <= {id(p) for p in model.parameters()}


def optimizers() -> list[Any]:
    kind = sys.modules["torch"].optim.Optimizer
    return [one for one in gc.get_objects() if issubclass(type(one), kind)]


def _parameters(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _sizes(call: Call, batch: int, gauge: Any) -> list[dict[str, int]]:
    states = sum(states_to_come(one, _parameters(one)) for one in optimizers())
    capacity = gauge.capacity_bytes()
    call.model.train()
    found: list[dict[str, int]] = []
    try:
        # The first makes the gradients, and what libraries keep for themselves.
        _step(call, 1, batch)
        size, expected = 1, 0
        while size < batch and expected <= capacity:
            gauge.reset_peak()
            _step(call, size, batch)
            found.append({"microbatch": size, "peakBytes": gauge.peak_bytes() + states})
            size *= 2
            # The last half of the samples added so much; as many as all of them add twice that.
            if found[1:]:
                expected = 3 * found[-1]["peakBytes"] - 2 * found[-2]["peakBytes"]
    except Exception as error:
        if recognise(error, gauge.used_share, HostGauge().used_share) is None:
            return []
    return found


def _step(call: Call, size: int, batch: int) -> None:
    torch = sys.modules["torch"]
    inputs = take(call.inputs(), 0, size, batch)
    given = [inputs.pop(i) for i in range(len(call.given))]
    autocast: Any = contextlib.nullcontext()
    if _autocast is not None:
        autocast = torch.autocast(_autocast[0], _autocast[1])
    with torch.enable_grad(), autocast:
        result = call.model(*given, **inputs)
        loss = loss_of(result)
    if loss is not None:
        loss.backward()


def loss_of(result: Any) -> Any:
    """The loss that a model returned; else one that takes as much memory as the usual one of its outputs."""
    torch = sys.modules["torch"]
    trained = [one for one in _tensors(result) if one.requires_grad and one.is_floating_point()]
    scalars = [one for one in trained if one.numel() == 1]
    if scalars:
        return scalars[0]
    parts = [torch.log_softmax(one.float(), -1).mean() for one in trained]
    return sum(parts) if parts else None


def _tensors(result: Any) -> list[Any]:
    if isinstance(result, sys.modules["torch"].Tensor):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [one for part in result for one in _tensors(part)]
    return []
