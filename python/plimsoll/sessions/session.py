"""`plimsoll.session()`: one configuration, one report, for a whole program."""

from __future__ import annotations

import gc
import re
import statistics
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Callable

from ..arguments import function
from ..arguments import model as torch_model
from ..buffering.store import BufferStore, buffers
from ..data_loading import loader
from ..debugging.alerts import thresholds_of
from ..debugging.debugger import Debugger, gauges_here, write_json
from ..failure import Failure
from ..leaks.collection import PauseMeter, PressureCollector, ScheduledCollection, clean_up, tune_gc
from ..memory.gauge import gauge_of
from ..memory.load_line import LOAD_LINE
from ..optimizing.change import parameter_bytes
from ..optimizing.optimize import Optimization, optimize
from ..recovery.parts import Splitter
from ..recovery.recovering import recovering
from ..settings.read import read_settings
from .batch_choice import choose_batch, measure_samples, recommend

INTERVAL = 1.0
THRESHOLD = 0.85
NO_STEPS = {"steps": 0, "samples": 0, "batch": "unknown", "microbatch": "unknown",
            "samplesPerSecond": "unknown", "stepSeconds": "unknown",
            "longestStepSeconds": "unknown", "recoveries": 0, "source": "measured"}  # fmt: skip


# A training step whose batches and times are counted.

# The steps whose times are kept: enough for a median that follows the run.
KEPT = 1000
# The first steps warm kernels and caches up; where there are more, they do not count in the median.
WARM_UP = 3


class MeteredStep:
    """Calls a recovering step, and remembers what it took."""

    def __init__(
        self,
        step: Any,
        size: Callable[[Any], int] | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.step = step
        self.steps = 0
        self.samples = 0
        self._splitter = Splitter(size)
        self._clock = clock
        self._seconds = 0.0
        self._first: list[float] = []
        self._times: deque[float] = deque(maxlen=KEPT)
        self._batch: int | None = None

    def __call__(self, batch: Any, loss: Callable[[Any], Any] | None = None) -> Any:
        count = self._splitter.size(batch)
        begin = self._clock()
        result = self.step(batch, loss)
        # The loss is on the device: reading it waits for the step, as its time must.
        if hasattr(result, "item"):
            result.item()
        took = self._clock() - begin
        self.steps += 1
        self.samples += count
        self._seconds += took
        self._batch = count
        (self._first if self.steps <= WARM_UP else self._times).append(took)
        return result

    def report(self) -> dict[str, Any]:
        """Batch, samples a second, and the time of a step; measured. Unknown before the first step."""
        times = list(self._times) or self._first
        events = [event for event in self.step.events if event.get("action") == "retry"]
        return {
            "steps": self.steps,
            "samples": self.samples,
            "batch": "unknown" if self._batch is None else self._batch,
            "microbatch": "unknown" if self.step.microbatch is None else self.step.microbatch,
            "samplesPerSecond": self.samples / self._seconds if self._seconds else "unknown",
            "stepSeconds": statistics.median(times) if times else "unknown",
            "longestStepSeconds": max([*self._first, *self._times], default="unknown"),
            "recoveries": len(events),
            "source": "measured",
        }


def metered(
    model: Any,
    optimizer: Any,
    loss: Callable[[Any], Any] | None,
    *,
    microbatch: int | None,
    size: Callable[[Any], int] | None,
) -> MeteredStep:
    step = recovering(model, optimizer, loss, microbatch=microbatch, size=size)
    return MeteredStep(step, size)


class Session:
    """Made by `plimsoll.session()`; between `with` and its end it watches."""

    def __init__(
        self,
        config: str | Mapping[str, Any] | None = None,
        *,
        on_warning: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self.settings = read_settings(config)
        self.debugger = self._debugger(function("on_warning", on_warning))
        self.pauses = PauseMeter()
        self._open = ExitStack()
        self._stores: list[BufferStore] = []
        self._steps: list[MeteredStep] = []
        self._optimizations: list[Optimization] = []
        self._model: Any = None
        self._began: float | None = None
        self._seconds = 0.0

    def __enter__(self) -> Session:
        if self._began is not None:
            raise Failure("session-open", "this session is open already", "make another one")
        self._began = time.monotonic()
        garbage = self._section("gc")
        with ExitStack() as opened:
            opened.enter_context(self.pauses)
            if "intervalSeconds" in garbage:
                every, young = garbage["intervalSeconds"], garbage.get("threshold0", 20_000)
                opened.enter_context(ScheduledCollection(every, young, freeze=False))
            if any(f"threshold{number}" in garbage for number in range(3)):
                now = gc.get_threshold()
                wanted = [garbage.get(f"threshold{number}", now[number]) for number in range(3)]
                opened.enter_context(tune_gc(*wanted))
            if "abovePercent" in garbage:
                above = garbage["abovePercent"] / 100
                opened.enter_context(PressureCollector(above, 5.0, 60.0).start())
            opened.enter_context(self.debugger)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: Any) -> None:
        self._seconds = self._elapsed()
        self._began = None
        self._open.close()

    def add_callback(self, callback: Callable[[dict[str, Any]], Any]) -> None:
        """Another function that is called with each warning, as `on_warning` is; at any time."""
        self.debugger.add_callback(callback)

    def clean_up(self, emergency: bool = False) -> dict[str, int]:
        """Gives back what nothing uses; `freedBytes` says how much."""
        return clean_up(emergency)

    def optimize_model(
        self,
        model: Any,
        optimizer: Any = None,
        *,
        forward: Callable[[], Any] | None = None,
    ) -> Optimization:
        """`plimsoll.optimize` with the precision and checkpointing of the configuration."""
        training = self._section("training")
        trains = optimizer is not None or getattr(model, "training", False)
        autocast, dtype = _precision(training.get("precision"), trains)
        done = optimize(
            model,
            optimizer,
            checkpoint=training.get("checkpointing"),
            segments=training.get("segments"),
            autocast=autocast,
            dtype=dtype,
            forward=forward,
        )
        self._model = model
        self._optimizations.append(done)
        return done

    def optimize_training(
        self,
        model: Any,
        optimizer: Any,
        loss: Callable[[Any], Any],
        batch: Any,
        *,
        size: Callable[[Any], int] | None = None,
    ) -> dict[str, Any]:
        """Optimizes the model, then finds the batch that fits; `batch` is a sample of the data, 2 or more.

        On a card a larger `batch` gives a better answer: the size that should fit is tried with its samples.

        Nothing is trained: gradients, running statistics and random numbers are as before.
        """
        torch_model("model", model)
        function("loss", loss)
        function("size", size)
        training = self._section("training")
        known = [one for one in self._optimizations if one.model is model]
        done = known[-1] if known else self.optimize_model(model, optimizer)
        gauge = gauge_of(model)
        line = self.settings.get("loadLinePercent", 100)
        percent = training.get("memoryPercent", min(line, 100 * THRESHOLD))
        most = min(gauge.capacity_bytes(), self.settings.get("memoryLimitBytes", 2**63))
        room = max(0, int(percent / 100 * most) - gauge.used_bytes())
        effective, limit = training.get("batch", 32), training.get("maxBatch")
        wanted = min(effective, limit or effective)
        measured = measure_samples(model, optimizer, loss, batch, size, room=room, wanted=wanted)
        fits = measured["fitsSamples"]
        found = choose_batch(fits, effective, training.get("minBatch", 1), limit)
        changes = {change.what for change in done.changes}
        return {
            "settings": {
                "batch": found["batch"],
                "accumulation": found["accumulation"],
                "precision": _precision_of(model, "autocast" in changes, training.get("precision")),
                "checkpointing": "checkpointing" in changes,
            },
            "roomBytes": room,
            **measured,
            "changes": done.report()["changes"],
        }  # fmt: skip

    def training_step(
        self,
        model: Any,
        optimizer: Any,
        loss: Callable[[Any], Any] | None = None,
        *,
        microbatch: int | None = None,
        size: Callable[[Any], int] | None = None,
    ) -> MeteredStep:
        """A recovering step whose batches, times and recoveries are in the report."""
        step = metered(model, optimizer, loss, microbatch=microbatch, size=size)
        self._model = model
        self._steps.append(step)
        return step

    def loader(self, dataset: Any, *, batch_size: int | None = None, shuffle: bool = False) -> Any:
        """`plimsoll.loader`, with the batch and the section `loading` of the configuration."""
        size = self._section("training").get("batch", 1) if batch_size is None else batch_size
        given = self._section("loading")
        return loader(
            dataset,
            batch_size=size,
            shuffle=shuffle,
            workers=given.get("workers"),
            pin_memory=given.get("pinMemory"),
            persistent_workers=given.get("persistentWorkers"),
            prefetch=given.get("prefetch"),
            above=self.settings.get("loadLinePercent", 100 * LOAD_LINE) / 100,
        )

    def buffers(self, folder: str | None = None) -> BufferStore:
        """A buffer store with the limit and the compression of the configuration."""
        given = self._section("buffers")
        store = buffers(
            limit=given.get("limitBytes", "auto"),
            folder=folder,
            compression="auto" if given.get("compress", True) else "none",
        )
        self._stores.append(store)
        self._open.callback(store.close)
        return store

    def report(self) -> dict[str, Any]:
        """Devices, garbage, buffers, leaks, training and model, as JSON can hold it."""
        seen = self.debugger.report()
        report = {
            **seen,
            "seconds": self._elapsed(),
            "gc": {**self.pauses.report(), "thresholds": list(gc.get_threshold())},
            "buffers": [store.statistics() for store in self._stores],
            "training": self._steps[-1].report() if self._steps else dict(NO_STEPS),
            "model": self._model_report(),
        }
        lines = thresholds_of(self._section("alerts"))
        report["recommendations"] = recommend(
            report,
            lines["gpuWarningPercent"] / 100,
            report["seconds"],
            of_host=lines["memoryWarningPercent"] / 100,
        )
        return report

    def recommendations(self) -> list[dict[str, Any]]:
        """What to do now, and what it saves, the most first."""
        found: list[dict[str, Any]] = self.report()["recommendations"]
        return found

    def write_report(self, path: str) -> None:
        """The report as a JSON file, whole or not at all."""
        write_json(path, self.report)

    def _debugger(self, on_warning: Callable[[dict[str, Any]], Any] | None) -> Debugger:
        profiling = self._section("profiling")
        known: dict[str, Any] = {}
        wanted = named_devices(self.settings.get("devices", []))
        return Debugger(
            interval=self.settings.get("intervalSeconds", INTERVAL),
            on_warning=on_warning,
            python=profiling.get("enabled", False),
            top=profiling.get("top", 10),
            alerts=self._section("alerts"),
            gauges=lambda: [one for one in gauges_here(None, known) if wanted(one.device)],
        )

    def _elapsed(self) -> float:
        return self._seconds if self._began is None else time.monotonic() - self._began

    def _section(self, name: str) -> dict[str, Any]:
        section: dict[str, Any] = self.settings.get(name, {})
        return section

    def _model_report(self) -> dict[str, Any]:
        if self._model is None:
            return {"parameters": "unknown", "bytes": "unknown", "changes": []}
        parameters = list(self._model.parameters())
        of_model = [one for one in self._optimizations if one.model is self._model]
        return {
            "parameters": sum(p.numel() for p in parameters),
            "trainedParameters": sum(p.numel() for p in parameters if p.requires_grad),
            "bytes": parameter_bytes(self._model),
            "changes": [change for one in of_model for change in one.report()["changes"]],
        }


def named_devices(names: Sequence[str]) -> Callable[[str], bool]:
    """Which devices of a program the names of a configuration mean: `host`, `0`, `gpu:0`, `gpus`, `all`.

    >>> [named_devices(["host", "1"])(one) for one in ("cpu", "cuda:0", "cuda:1")]
    [True, False, True]
    """
    if not names or "all" in names:
        return lambda _: True
    meant = set()
    for name in names:
        number = re.fullmatch(r"(?:gpu:)?(\d+)", name)
        if name not in ("host", "gpus") and number is None:
            fact = f'devices: a session knows no device "{name}"'
            step = 'Name those of PyTorch: "host", "gpu:0", "gpus", or leave devices out.'
            raise Failure("bad-config-value", fact, step, "devices")
        meant.add("cpu" if name == "host" else f"cuda:{number[1]}" if number else "gpus")
    return lambda device: device in meant or ("gpus" in meant and device.startswith("cuda"))


def _precision(name: str | None, trains: bool) -> tuple[Any, Any]:
    """What `optimize` is told: autocast, and the type of the weights; those that are trained keep theirs."""
    if name is None:
        return None, None
    import torch

    dtype = torch.float16 if name.endswith("fp16") else torch.bfloat16
    if name == "fp32":
        return False, None
    return (dtype, None) if trains or name.startswith("amp-") else (False, dtype)


def _precision_of(model: Any, autocast: bool, asked: str | None) -> str:
    """What a step computes in, in the words of the configuration."""
    if autocast:
        return "amp-fp16" if asked is not None and asked.endswith("fp16") else "amp-bf16"
    kinds = {str(p.dtype) for p in model.parameters() if p.is_floating_point()}
    names = {"torch.float16": "fp16", "torch.bfloat16": "bf16"}
    return names.get(kinds.pop(), "fp32") if len(kinds) == 1 else "fp32"


def session(
    config: str | Mapping[str, Any] | None = None,
    *,
    on_warning: Callable[[dict[str, Any]], Any] | None = None,
) -> Session:
    """Watches a program, applies the configuration, and reports it all.

        with plimsoll.session() as session:
            session.optimize_model(model, optimizer)
            step = session.training_step(model, optimizer, lambda batch: model(**batch).loss)
            for batch in session.loader(dataset, batch_size=32, shuffle=True):
                step(batch)
            print(session.report()["training"], session.recommendations())

    `config` is a file, or the same as a dict; where it is left out, the `plimsoll.config.json` that holds
    in this folder, if there is one. `on_warning` is called when memory runs short or leaks, with the `kind` of the
    alert; `add_callback` adds further functions.
    """
    return Session(config, on_warning=on_warning)
