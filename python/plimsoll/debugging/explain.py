"""`plimsoll.explain()`: an out-of-memory error with its cause, what holds the memory, and what would free it."""

from __future__ import annotations

import contextlib
import gc
import shlex
import subprocess
import sys
from typing import Any, NamedTuple

from ..arguments import size_words
from ..asking.command import command
from ..memory.gauge import gauge_of
from ..memory.out_of_memory import recognise

# Adam keeps two states of 32 bits for each number; in 8 bits they take a quarter.
_EIGHT_BIT_SAVES = 0.75


class Held(NamedTuple):
    """Bytes on one device at the moment of the failure."""

    limit: int
    free: int
    reserved: int
    allocated: int
    weights: int
    gradients: int
    states: int
    asked: int | None

    @property
    def others(self) -> int:
        """Activations, batches, and tensors that the program keeps."""
        return max(0, self.allocated - self.weights - self.gradients - self.states)

    @property
    def foreign(self) -> int:
        """Held by other processes."""
        return max(0, self.limit - self.free - self.reserved)

    @property
    def unused(self) -> int:
        """Held by the allocator, in use by no tensor."""
        return max(0, self.reserved - self.allocated)


class Fix(NamedTuple):
    saves: int
    text: str


class explain(contextlib.ContextDecorator):
    """Prints why memory ran out, where it does; the error itself goes on.

        with plimsoll.explain():
            train()

    Also a decorator. `report` holds the text after a failure.
    """

    def __init__(self) -> None:
        self.report: str | None = None

    def __enter__(self) -> explain:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.report = None if error is None else explained(error)
        if self.report is not None:
            print(self.report, file=sys.stderr)


def explained(error: BaseException) -> str | None:
    """The text about an out-of-memory error; None for any other error."""
    found = recognise(error)
    if found is None:
        return None
    return describe(_held(found.asked_bytes))


def describe(held: Held) -> str:
    """Cause, holders and the three fixes that save most.

    >>> held = Held(limit=8 << 30, free=1 << 30, reserved=7 << 30, allocated=6 << 30, weights=1 << 30,
    ...     gradients=1 << 30, states=2 << 30, asked=2 << 30)
    >>> describe(held).splitlines()[0]
    'plimsoll: Memory ran out: 2.0 GiB were asked for; 7.0 GiB of 8.0 GiB were reserved.'
    """
    asked = "more memory was" if held.asked is None else f"{size_words(held.asked)} were"
    lines = [
        f"plimsoll: Memory ran out: {asked} asked for; "
        f"{size_words(held.reserved)} of {size_words(held.limit)} were reserved.",
        f"  cause  {_cause(held)}",
        "  held by",
    ]
    parts = {
        "weights": held.weights,
        "gradients": held.gradients,
        "optimizer states": held.states,
        "activations, batches and kept tensors": held.others,
        "the allocator, unused": held.unused,
    }
    lines += [f"    {size_words(count):>9}  {name}" for name, count in parts.items() if count > 0]
    lines.append("  fixes (bytes are estimated, each by itself)")
    lines += [f"    {size_words(fix.saves):>9}  {fix.text}" for fix in fixes(held)]
    return "\n".join(lines)


def _cause(held: Held) -> str:
    if held.asked is not None:
        if held.asked <= held.unused:
            return "Fragmentation: the allocator holds enough unused memory, but in pieces."
        if held.free < held.asked <= held.free + held.foreign:
            return f"Other processes hold {size_words(held.foreign)} of the device."
        if held.asked > held.limit // 2:
            return "One tensor is larger than half of the device."
    largest = max(
        (held.others, "Activations, batches or kept tensors"),
        (held.states, "Optimizer states"),
        (held.weights, "Weights"),
        (held.gradients, "Gradients"),
    )
    return f"{largest[1]} take {size_words(largest[0])}, more than any other part."


def fixes(held: Held) -> list[Fix]:
    """The three that save most."""
    found = [
        Fix(held.others // 2, "half the batch, with twice the accumulation: batch_size / 2"),
        Fix(
            held.others * 2 // 3,
            "gradient checkpointing: model.gradient_checkpointing_enable(), or plimsoll.optimize(model)",
        ),
        Fix(
            int(held.states * _EIGHT_BIT_SAVES),
            "optimizer states in 8 bits: bitsandbytes.optim.AdamW8bit",
        ),
        Fix(held.weights // 2, "weights in bfloat16, if they are in 32 bits: model.bfloat16()"),
        Fix(held.unused, "less fragmentation: PYTORCH_ALLOC_CONF=expandable_segments:True"),
    ]
    return sorted((fix for fix in found if fix.saves > 0), reverse=True)[:3]


def _held(asked: int | None) -> Held:
    """Looks at the objects of the program; frames of the error still hold those of the failure."""
    gauge = gauge_of()
    figures = gauge.figures()
    weights, gradients, states = _parts(gauge.device)
    return Held(
        limit=figures["totalBytes"],
        free=figures["freeBytes"],
        reserved=figures["reservedBytes"],
        allocated=figures["allocatedBytes"],
        weights=weights,
        gradients=gradients,
        states=states,
        asked=asked,
    )


def _parts(device: str) -> tuple[int, int, int]:
    """Bytes of weights, gradients and optimizer states on a device; what several share counts once."""
    torch = sys.modules.get("torch")
    if torch is None:
        return 0, 0, 0
    seen: set[int] = set()

    def count(tensors: Any) -> int:
        total = 0
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor) or str(tensor.device) != device:
                continue
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in seen:
                seen.add(storage.data_ptr())
                total += storage.nbytes()
        return total

    everything = gc.get_objects()
    modules = [one for one in everything if issubclass(type(one), torch.nn.Module)]
    optimizers = [one for one in everything if issubclass(type(one), torch.optim.Optimizer)]
    del everything
    held = [
        tensor
        for module in modules
        for group in (module._parameters, module._buffers)
        for tensor in group.values()
    ]
    weights = count(held)
    gradients = count(getattr(tensor, "grad", None) for tensor in held)
    states = count(
        value
        for optimizer in optimizers
        for state in optimizer.state.values()
        if isinstance(state, dict)
        for value in state.values()
    )
    return weights, gradients, states


def extend(shell: Any) -> None:
    """A notebook that explains each out-of-memory error and has the magic `%plimsoll`."""

    def handler(own: Any, kind: Any, error: Any, trace: Any, tb_offset: Any = None) -> None:
        own.showtraceback((kind, error, trace), tb_offset=tb_offset)
        text = explained(error)
        if text is not None:
            print(text, file=sys.stderr)

    shell.set_custom_exc((RuntimeError, MemoryError), handler)
    shell.register_magic_function(_magic, "line", "plimsoll")


def _magic(line: str) -> None:
    """Runs the command: `%plimsoll estimate llama-3-8b --batch 1`."""
    done = subprocess.run(
        [*command(), *shlex.split(line)], capture_output=True, text=True, check=False
    )
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
