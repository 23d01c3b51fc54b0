"""`plimsoll.spill(memory="12GiB")`, and the same for every program that a supervisor starts with a limit."""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import sys
import time
from typing import Any, Callable

from ..arguments import bytes_of
from ..bridge import connection, memory_cap
from ..failure import Failure
from ..memory.gauge import device_of
from ..memory.host import stated_limit

log = logging.getLogger("plimsoll")

# Figures go to the supervisor once a second at the most.
SENT_EVERY_SECONDS = 1.0

_current: Any = None
_ids = itertools.count(1)
_sent = 0.0


class Handle:
    """Ends spilling by `close()`, or at the end of a `with` block."""

    def __init__(self, spilling: Any, limit_before: str | None = None) -> None:
        self._spilling = spilling
        self._limit_before = limit_before

    @property
    def figures(self) -> dict[str, Any]:
        found: dict[str, Any] = self._spilling.figures()
        return found

    def close(self) -> None:
        global _current
        self._spilling.close()
        if _current is not self._spilling:
            return
        _current = None
        os.environ.pop("PLIMSOLL_MEMORY_BYTES", None)
        if self._limit_before is not None:
            os.environ["PLIMSOLL_MEMORY_BYTES"] = self._limit_before
        memory_cap.move_cap(sys.modules["torch"])

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def spill(memory: str | int, *, device: Any = None) -> Handle:
    """Keeps what a program holds on a card below a limit: what autograd saves waits on the host or is computed again.

        plimsoll.spill(memory="12GiB")
        for batch in loader:
            loss = model(batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    Losses and weights are those of the program without a limit. `close()` of the result ends it.
    """
    import torch

    limit = bytes_of("memory", memory)
    name = torch.device("cuda") if device is None else device_of(device)
    if _current is not None:
        raise Failure(
            "already-spilling",
            "this process spills already",
            "close() the result of the first plimsoll.spill(...), or leave the second out",
        )
    if name.type != "cuda" or not torch.cuda.is_available():
        raise Failure(
            "nothing-to-spill-from",
            f"there is no card to spill from: the device is {name.type}",
            "run on a machine with a CUDA card; on the host's memory use plimsoll.recovering",
        )
    index = torch.cuda.current_device() if name.index is None else name.index
    _expand_segments(torch)
    before = os.environ.get("PLIMSOLL_MEMORY_BYTES")
    os.environ["PLIMSOLL_MEMORY_BYTES"] = str(limit)
    memory_cap.cap_cuda(torch)
    memory_cap.move_cap(torch)
    return Handle(_begin(index, limit, "auto"), before)


def install(torch: Any) -> None:
    """Under `plimsoll run`: once the program uses a card, or at once where the host's memory stands in for one."""
    mode = os.environ.get("PLIMSOLL_SPILL", "off")
    limit = stated_limit()
    if mode not in ("auto", "always") or limit is None:
        return
    bridge = connection.current()
    if bridge is not None:
        bridge.on("limit", _limit_moved)
    if os.environ.get("PLIMSOLL_SPILL_CARD") == "cpu":
        _can_spill()
        _begin(None, limit, mode)
    elif torch.version.cuda is not None and hasattr(torch.cuda, "_lazy_call"):
        _expand_segments(torch)
        torch.cuda._lazy_call(lambda: _wait_for_training(torch, mode))


def _can_spill() -> None:
    """The supervisor may start this program again with spilling; never one that uses no card."""
    bridge = connection.current()
    if bridge is not None:
        bridge.spills = True
        bridge.say_hello()


def _wait_for_training(torch: Any, mode: str) -> None:
    """The card is known once a model is called on it."""
    from torch.nn.modules import module as modules

    _can_spill()
    handles: list[Any] = []

    def called(module: Any, _inputs: Any) -> None:
        if not torch.is_grad_enabled() or _current is not None:
            return
        weight = next((p for p in module.parameters() if p.is_cuda), None)
        limit = stated_limit()
        if weight is None or limit is None:
            return
        for handle in handles:
            handle.remove()
        try:
            _begin(weight.get_device(), limit, mode)
        except Exception as error:
            # The program goes on as without us.
            log.warning("plimsoll: this program's memory is not spilled: %s", error)

    handles.append(modules.register_module_forward_pre_hook(called))


def _begin(index: int | None, limit: int, mode: str) -> Any:
    global _current
    from .card import CudaCard, HostAsCard
    from .host_pool import host_room
    from .program import Spilling

    stated = os.environ.get("PLIMSOLL_SPILL_HEADROOM_BYTES", "")
    spilling = Spilling(
        HostAsCard() if index is None else CudaCard(index),
        limit,
        host_room(),
        mode,
        int(stated) if stated.isdigit() else 0,
        _ask,
        _send,
        _cap,
    )
    _current = spilling
    atexit.register(_say_last)
    return spilling


def _ask(measured: Any, limit: int) -> Any:
    """The supervisor's plan; None where there is none in time, or one that knows nothing of spilling."""
    from .decide import measured_as_json, plan_from

    bridge = connection.current()
    if bridge is None:
        return None
    ident = f"{os.getpid()}-spill-{next(_ids)}"
    message = {"type": "blocks", "id": ident, "limitBytes": limit, **measured_as_json(measured)}
    answer = bridge.ask(message, "spill-plan")
    try:
        return None if answer is None else plan_from(answer)
    except (KeyError, TypeError, ValueError) as error:
        log.debug("plimsoll: the supervisor's plan was not understood: %s", error)
        return None


def _send(figures: dict[str, Any]) -> None:
    global _sent
    now = time.monotonic()
    bridge = connection.current()
    if bridge is not None and now - _sent >= SENT_EVERY_SECONDS:
        _sent = now
        bridge.send({"type": "spill", **figures})


def _say_last() -> None:
    bridge = connection.current()
    if bridge is not None and _current is not None:
        bridge.send({"type": "spill", **_current.figures()})


def _limit_moved(message: dict[str, Any]) -> None:
    """In the thread that hears the supervisor."""
    wanted = message.get("bytes")
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted <= 0:
        return

    def answer(limit: int, held: int) -> None:
        bridge = connection.current()
        if bridge is not None:
            said = {"type": "limit-set", "bytes": limit, "allocatedBytes": held}
            bridge.send({**said, "order": message.get("order")})

    if _current is None:
        # It holds nothing on a card yet, or begins later: the limit is there before it.
        _cap(wanted)
        answer(wanted, 0)
        return
    _current.move_limit(wanted, answer)


def _cap(limit: int) -> None:
    torch = sys.modules["torch"]
    os.environ["PLIMSOLL_MEMORY_BYTES"] = str(limit)
    memory_cap.move_cap(torch)


def _expand_segments(torch: Any) -> None:
    """Near the limit most memory is lost to segments of a fixed size."""
    named = [os.environ.get(name, "") for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")]
    put: Callable[[str], None] | None = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if put is None:
        put = getattr(torch.cuda.memory, "_set_allocator_settings", None)
    if put is None or any("expandable_segments" in text for text in named):
        return
    try:
        put(",".join([text for text in named if text] + ["expandable_segments:True"]))
    except (RuntimeError, ValueError) as error:
        log.debug("plimsoll: the allocator keeps its segments: %s", error)


def _after_fork() -> None:
    """A child has no card, and what waits on the host is its parent's."""
    global _current
    if _current is not None:
        _current.store.is_idle = True
        _current.close()
    _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
