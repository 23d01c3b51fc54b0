"""How large a batch fits: measured with one sample and with a few, drawn out in a line, and tried on a card."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from ..arguments import BadValue
from ..memory.gauge import HostGauge, gauge_of
from ..memory.out_of_memory import recognise
from ..optimizing.change import parameter_bytes
from ..optimizing.measure import as_in_training, held_by, kept_for_backward, peak_of
from ..recovery.parts.split import Splitter

# Samples of the larger measurement; the line needs two points, and few samples fit anywhere.
MAX_SAMPLES = 4
# Each comes nearer; after these the line is as good as it gets.
MAX_TRIES = 4
# What an optimizer keeps for each byte of weights, where it has made no step yet; by its class.
STATES = {"SGD": 0, "Adagrad": 1, "RMSprop": 1, "Adafactor": 0}
USUAL_STATES = 2


def measure_samples(
    model: Any,
    optimizer: Any,
    loss: Callable[[Any], Any],
    batch: Any,
    size: Callable[[Any], int] | None,
    *,
    room: int,
    wanted: int,
) -> dict[str, Any]:
    """Bytes of one sample more, of everything that does not depend on the batch, and the samples that fit.

    On a card it is the peak of forward and backward, and the size that should fit is tried with the samples
    there are; on the host what autograd keeps between them, since the host's peak counts all of Python.
    """
    splitter = Splitter(size)
    count = splitter.size(batch)
    if count < 2:
        fact = "one sample does not tell what a second one takes"
        raise BadValue(fact, "pass a batch of at least 2 samples")
    several = min(MAX_SAMPLES, count)
    gauge = gauge_of(model)
    fixed = parameter_bytes(model) * (1 + _states(optimizer))

    def run(samples: int) -> None:
        loss(splitter.part(batch, 0, samples, count)).backward()

    def bytes_of(samples: int) -> int:
        if isinstance(gauge, HostGauge):
            part = splitter.part(batch, 0, samples, count)
            return kept_for_backward(lambda: loss(part), model)
        return peak_of(lambda: run(samples), gauge)

    def attempt(samples: int) -> int | None:
        if isinstance(gauge, HostGauge):
            raise TypeError("the host's peak counts all of Python")
        try:
            return held_by(lambda: run(samples), gauge)
        except Exception as error:
            if recognise(error) is None:
                raise
            return None

    before = [p.grad for p in model.parameters()]
    with as_in_training(model):
        try:
            # The first run makes what later ones find: workspaces, and gradients.
            bytes_of(1)
            one, more = bytes_of(1), bytes_of(several)
            per_sample = max(1, (more - one) // (several - 1))
            line = Line(several, more, per_sample, room - fixed)
            tried: list[int] = []
            if not isinstance(gauge, HostGauge):
                line, tried = line_tried(line, min(count, wanted), attempt)
        finally:
            for parameter, gradient in zip(model.parameters(), before):
                parameter.grad = gradient
    return {
        "sampleBytes": line.per_sample,
        "fixedBytes": fixed,
        "fitsSamples": line.fits(),
        "measuredWith": [1, several, *tried],
        "source": "measured",
    }


class Line(NamedTuple):
    """Bytes by samples: through a point that was measured, with the bytes of one sample more."""

    samples: int
    held: int
    per_sample: int
    room: int
    # More than these were seen to fail.
    ceiling: int = 2**62

    def fits(self) -> int:
        """
        >>> Line(4, 40, 10, 200).fits()
        20
        """
        return max(0, min(self.ceiling, self.samples + (self.room - self.held) // self.per_sample))


def line_tried(
    line: Line, largest: int, attempt: Callable[[int], int | None]
) -> tuple[Line, list[int]]:
    """The line, drawn again through what a larger part was seen to take; None is out of memory."""
    small = line
    tried: list[int] = []
    for _ in range(MAX_TRIES):
        size = min(largest, line.fits())
        # What differs by less than a sixteenth is known well enough.
        if size <= small.samples or any(abs(size - known) * 16 <= known for known in tried):
            break
        tried.append(size)
        found = attempt(size)
        if found is None:
            line = line._replace(ceiling=size * 7 // 8)
            continue
        per_sample = max(1, -(-(found - small.held) // (size - small.samples)))
        line = line._replace(samples=size, held=found, per_sample=per_sample)
    return line, tried


def choose_batch(
    fits: int,
    effective: int,
    least: int,
    most: int | None,
) -> dict[str, int]:
    """The largest part of the effective batch that fits, within the limits; accumulation makes up the rest."""
    wanted = min(effective, most or effective)
    batch = max(1, min(wanted, max(least, fits)))
    return {"batch": batch, "accumulation": -(-effective // batch)}


def _states(optimizer: Any) -> int:
    """Gradients come beside them; states that are there are in use, and so not free."""
    if optimizer is None:
        return 0
    return 0 if optimizer.state else STATES.get(type(optimizer).__name__, USUAL_STATES)
