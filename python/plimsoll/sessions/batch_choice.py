"""How large a batch fits: measured with one sample and with a few, then drawn out in a line."""

from __future__ import annotations

from typing import Any, Callable

from ..arguments import BadValue
from ..feeding.build import random_numbers_kept
from ..memory.gauge import HostGauge, gauge_of
from ..optimizing.change import parameter_bytes
from ..optimizing.measure import kept_for_backward, peak_of
from ..recovery.parts.split import Splitter
from ..recovery.restore.running_statistics import RunningStatistics

# Samples of the larger measurement; the line needs two points, and few samples fit anywhere.
MAX_SAMPLES = 4
# What an optimizer keeps for each byte of weights, where it has made no step yet; by its class.
STATES = {"SGD": 0, "Adagrad": 1, "RMSprop": 1, "Adafactor": 0}
USUAL_STATES = 2


def measure_samples(
    model: Any,
    optimizer: Any,
    loss: Callable[[Any], Any],
    batch: Any,
    size: Callable[[Any], int] | None,
) -> dict[str, Any]:
    """Bytes of one sample more, and of everything that does not depend on the batch.

    On a card it is the peak of forward and backward; on the host what autograd keeps between them, since
    the host's peak counts all of Python.
    """
    splitter = Splitter(size)
    count = splitter.size(batch)
    if count < 2:
        fact = "one sample does not tell what a second one takes"
        raise BadValue(fact, "pass a batch of at least 2 samples")
    several = min(MAX_SAMPLES, count)
    gauge = gauge_of(model)
    on_host = isinstance(gauge, HostGauge)
    statistics = RunningStatistics(model)
    statistics.mark()

    def bytes_of(samples: int) -> int:
        part = splitter.part(batch, 0, samples, count)
        if on_host:
            return kept_for_backward(lambda: loss(part), model)
        return peak_of(lambda: loss(part).backward(), gauge)

    before = [p.grad for p in model.parameters()]
    with random_numbers_kept():
        try:
            # The first run makes what later ones find: workspaces, and gradients.
            bytes_of(1)
            one, more = bytes_of(1), bytes_of(several)
        finally:
            statistics.put_back()
            for parameter, gradient in zip(model.parameters(), before):
                parameter.grad = gradient
    weights = parameter_bytes(model)
    return {
        "sampleBytes": max(1, (more - one) // (several - 1)),
        "fixedBytes": weights * (1 + _states(optimizer)),
        "measuredWith": [1, several],
        "source": "measured",
    }


def choose_batch(
    measured: dict[str, Any],
    room: int,
    effective: int,
    least: int,
    most: int | None,
) -> dict[str, int]:
    """The largest part of the effective batch that fits, within the limits; accumulation makes up the rest."""
    fits = max(0, (room - measured["fixedBytes"]) // measured["sampleBytes"])
    wanted = min(effective, most or effective)
    batch = max(1, min(wanted, max(least, fits)))
    return {"batch": batch, "accumulation": -(-effective // batch), "fits": fits}


def _states(optimizer: Any) -> int:
    """Gradients come beside them; states that are there are in use, and so not free."""
    if optimizer is None:
        return 0
    return 0 if optimizer.state else STATES.get(type(optimizer).__name__, USUAL_STATES)
