"""How large a batch fits: measured with one sample and with a few, drawn out in a line, and tried on a card."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from ..arguments import BadValue
from ..debugging.debugger import leak_advice
from ..memory.gauge import HostGauge, gauge_of
from ..memory.out_of_memory import recognise
from ..optimizing.change import as_in_training, held_by, kept_for_backward, parameter_bytes, peak_of
from ..recovery.parts import Splitter

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


# What to do, and what it saves, the most first. Decides from a report, reads no machine.

# Less is lost among what an allocator keeps for the next step.
LEAST_CACHED = 256 * 2**20
# A program that spends more of its time in the collector is worth a change.
LEAST_PAUSES = 0.01
# Below this, most of a device is unused.
MUCH_FREE = 0.5


def recommend(
    report: dict[str, Any], threshold: float, seconds: float, of_host: float | None = None
) -> list[dict[str, Any]]:
    lines = {"cpu": threshold if of_host is None else of_host}
    found = [
        *_model(report),
        *_devices(report["devices"], threshold, lines),
        *_leaks(report["leaks"]),
        *_garbage(report["gc"], seconds),
        *_batch(report),
    ]
    return sorted(found, key=_weight, reverse=True)


def _devices(
    devices: dict[str, Any], threshold: float, lines: dict[str, float]
) -> list[dict[str, Any]]:
    found = []
    for name, device in devices.items():
        usage = device["currentUsage"]
        total = usage["totalBytes"]
        cached = usage["reservedBytes"] - usage["allocatedBytes"]
        if cached >= LEAST_CACHED:
            fact = f"{name}: the allocator holds {_mib(cached)} that no tensor uses."
            found.append(
                _advice("allocator-cache", fact, "session.clean_up()", _bytes(cached, total))
            )
        over = int(total - usage["freeBytes"] - lines.get(name, threshold) * total)
        if over > 0:
            fact = f"{name} is {usage['usedPercent']:.0f} % full."
            step = "session.optimize_model(model, optimizer)  # checkpointing and bfloat16"
            found.append(_advice("device-full", fact, step, _bytes(over, total)))
    return found


def _leaks(leaks: dict[str, Any]) -> list[dict[str, Any]]:
    held = sum(one.get("bytes", 0) for one in leaks["tensors"])
    saves = _bytes(held, 0) if held else {"kind": "unknown"}
    return [
        _advice("leak", "Memory was kept since the start.", line, saves if number == 0 else None)
        for number, line in enumerate(leak_advice(leaks))
    ]


def _model(report: dict[str, Any]) -> list[dict[str, Any]]:
    model = report["model"]
    if model["bytes"] == "unknown" or model["changes"]:
        return []
    fact = f"The model has {model['parameters']} parameters and was not optimized."
    return [_advice("model", fact, "session.optimize_model(model, optimizer)", None)]


def _garbage(garbage: dict[str, Any], seconds: float) -> list[dict[str, Any]]:
    share = garbage["totalSeconds"] / seconds if seconds > 0 else 0.0
    if share < LEAST_PAUSES:
        return []
    fact = f"Python's garbage collector took {100 * share:.1f} % of the time."
    step = "plimsoll.schedule_gc(every=30)  # after data and model are loaded"
    saves = {"kind": "time", "lowShare": 0.0, "highShare": share, "source": "measured"}
    return [_advice("garbage", fact, step, saves)]


def _batch(report: dict[str, Any]) -> list[dict[str, Any]]:
    """More samples at a time where a card has room; a batch of one's own was chosen for a reason."""
    cards = [one["currentUsage"] for name, one in report["devices"].items() if name != "cpu"]
    if not cards or report["training"]["steps"] == 0:
        return []
    peaks = [one["peakReservedBytes"] / max(1, one["totalBytes"]) for one in cards]
    if max(peaks) >= MUCH_FREE:
        return []
    fact = f"At most {100 * max(peaks):.0f} % of a card was used."
    return [_advice("batch", fact, "session.optimize_training(...)  # finds the batch", None)]


def _advice(code: str, fact: str, step: str, saves: dict[str, Any] | None) -> dict[str, Any]:
    return {"code": code, "fact": fact, "steps": [step], "saves": saves or {"kind": "unknown"}}


def _bytes(count: int, total: int) -> dict[str, Any]:
    share = count / total if total else "unknown"
    return {"kind": "bytes", "bytes": count, "share": share, "source": "measured"}


def _weight(advice: dict[str, Any]) -> float:
    saves = advice["saves"]
    if saves["kind"] == "time":
        return float(saves["highShare"])
    if saves["kind"] == "bytes":
        return 0.0 if saves["share"] == "unknown" else float(saves["share"])
    return -1.0


def _mib(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"
