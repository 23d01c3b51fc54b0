"""A module of a process that is alive: that process traces it, in a fork of its own.

The command is given this file as a script, and the socket of the process as its argument. The tracer that the command
starts hands its arguments over, and ends as the fork ends.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from typing import Any, Callable, NamedTuple

from plimsoll.failure import Failure

SCRIPT = os.path.abspath(__file__)
_ARGUMENT = "socket="
# An answer is a status.
_LONGEST_ANSWER = 1 << 16


class Held(NamedTuple):
    """What was asked for, in the process that has the module."""

    model: Any
    # The values of a batch, or how many samples one has.
    batch: Any
    loss: Callable[[Any], Any] | None
    # Settings that the command does not hand to a script; and whether the weights take the type of the precision.
    settings: dict[str, Any]
    cast: bool


# In a fork that traces; nowhere else.
held: Held | None = None


def socket_of(script: str | None, arguments: list[str]) -> str | None:
    """Where the process listens, if a trace is of a module that is alive."""
    if script is None or os.path.abspath(script) != SCRIPT:
        return None
    return next((one[len(_ARGUMENT) :] for one in arguments if one.startswith(_ARGUMENT)), None)


def arguments_of(path: str) -> list[str]:
    return [f"--script={SCRIPT}", f"--arg={_ARGUMENT}{path}"]


def hand_over(path: str, arguments: list[str]) -> int:
    """Has the other process answer, and says what it said."""
    with tempfile.TemporaryDirectory() as folder:
        names = {name: os.path.join(folder, name) for name in ("stdout", "stderr")}
        question = {"args": arguments, "temporary": tempfile.gettempdir(), **names}
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(path)
                connection.sendall(json.dumps(question).encode() + b"\n")
                answer = json.loads(connection.recv(_LONGEST_ANSWER))
            except (OSError, ValueError) as error:
                raise Failure(
                    "process-gone",
                    "the process that has the module ended",
                    "ask again while it runs",
                ) from error
        for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            if os.path.exists(names[name]):
                with open(names[name], encoding="utf-8", errors="replace") as file:
                    stream.write(file.read())
        return int(answer["status"])


def load(settings: Any) -> Any:
    """The workload of a fork. The module itself goes to the meta device: it is this process's copy."""
    import torch

    from plimsoll.optimizing.checkpointing import checkpoint

    from ..workload import Workload
    from .batches import batch_for
    from .hugging_face import usual_forward
    from .script import call_with

    if held is None:
        raise Failure("process-gone", "there is no module here", "call plimsoll.estimate(model)")
    model, loss = held.model, held.loss
    _to_meta(model, settings.dtype if held.cast else None)
    model.train(settings.training)
    if settings.training and settings.checkpointing and checkpoint(model) is None:
        raise Failure(
            "no-checkpointing",
            f"{type(model).__name__} has no repeated blocks, which checkpointing is for",
            "leave checkpointing out",
        )
    if isinstance(held.batch, int):
        return Workload(model, lambda: batch_for(model, settings), usual_forward(settings))
    batch = held.batch

    def run(module: Any, given: Any) -> Any:
        result = call_with(module, given) if loss is None or not settings.training else loss(given)
        return _loss_in(result) if settings.training else result

    def next_batch() -> Any:
        return _moved(batch, torch)

    return Workload(model, next_batch, run)


def _loss_in(result: Any) -> Any:
    import torch

    found = result.get("loss") if isinstance(result, dict) else getattr(result, "loss", result)
    if isinstance(found, torch.Tensor) and found.numel() == 1:
        return found
    raise Failure(
        "loss-unclear",
        f"a step of the model returns {_words_of(found)}, not its loss",
        "pass loss=lambda batch: ... that returns one number in a tensor",
    )


def _words_of(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" if shape is None else f"a tensor of shape {tuple(shape)}"


def _moved(value: Any, torch: Any) -> Any:
    """The same values on the card that is simulated."""
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if isinstance(value, dict):
        return {name: _moved(one, torch) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        moved = [_moved(one, torch) for one in value]
        return type(value)(*moved) if hasattr(value, "_fields") else type(value)(moved)
    return value


def _to_meta(model: Any, dtype: Any) -> None:
    """Every tensor of the module in its place; what two of them share stays shared."""
    import torch

    # The old ones are kept, so that no other gets the id of one.
    moved: dict[int, tuple[Any, Any]] = {}

    def to_meta(tensor: Any) -> Any:
        if id(tensor) not in moved:
            moved[id(tensor)] = (tensor, _meta_of(tensor, dtype))
        return moved[id(tensor)][1]

    for module in model.modules():
        for tensors in (module._parameters, module._buffers, vars(module)):
            for name, tensor in list(tensors.items()):
                if isinstance(tensor, torch.Tensor):
                    tensors[name] = to_meta(tensor)


def _meta_of(tensor: Any, dtype: Any) -> Any:
    import torch
    from torch.nn.parameter import UninitializedTensorMixin

    kind = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
    if isinstance(tensor, UninitializedTensorMixin):
        return type(tensor)(requires_grad=tensor.requires_grad, device="meta", dtype=kind)
    empty = torch.empty_like(tensor.detach(), device="meta", dtype=kind)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(empty, tensor.requires_grad)
    return empty
