"""Stand-ins for libraries that programs train with, put in place once a program imports them."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Callable

from .. import small_values
from ..standins.imports import when_imported
from ..standins.patches import Patches
from .files.overlay import Overlay
from .loops.batch_loops import BatchLoop, Number
from .loops.rewritten import is_the_programs
from .passes.repeats import Repeats
from .watch import GENERATING, SAVING, Watch
from .weights import write_header

# Trackers would open connections, and a progress bar says nothing to anyone.
_VARIABLES = {
    "WANDB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TQDM_DISABLE": "1",
}
# What writes weights without torch.save looks for their bytes. Module, class, function, and the file.
_WRITERS = (
    ("transformers.modeling_utils", "PreTrainedModel", "save_pretrained", "model.safetensors"),
    ("peft.peft_model", "PeftModel", "save_pretrained", "adapter_model.safetensors"),
    ("accelerate.accelerator", "Accelerator", "save_model", "model.safetensors"),
)


# Steps of transformers' `Trainer`, with what a program's own callbacks hold them against.
#
# `if state.global_step == 500: unfreeze()` in a callback would be left out with the batches that are alike. So the
# number of a step says to the loop over batches what a program holds it against.

_STEP = "global_step"
# Evaluation and saving that would come after thousands of steps come after so many.
_STEPS_BEFORE = 3


class SeenStep(int):
    """The number of a step, as a program's own files have it."""

    number: Number | None = None

    def of(self, number: Number | None) -> SeenStep:
        self.number = number
        return self

    def _sees(self, goal: Any, modulo: int = 0) -> None:
        if self.number is not None and type(goal) is int:
            self.number.looked(int(self), goal, modulo)

    def __eq__(self, other: object) -> bool:
        self._sees(other)
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        self._sees(other)
        return int(self) < other

    def __le__(self, other: Any) -> bool:
        self._sees(other)
        return int(self) <= other

    def __gt__(self, other: Any) -> bool:
        self._sees(other)
        return int(self) > other

    def __ge__(self, other: Any) -> bool:
        self._sees(other)
        return int(self) >= other

    def __mod__(self, other: Any) -> Any:
        if type(other) is int and other > 0:
            self._sees(0, other)
        return int(self) % other

    def __add__(self, other: Any) -> Any:
        result = int(self) + other
        return SeenStep(result).of(self.number) if type(other) is int else result

    __hash__ = int.__hash__


class StepLoop(BatchLoop):
    """One epoch of a Trainer. Its numbers are led on only to what the program holds them against."""

    def __init__(self, watch: Watch, state: Any) -> None:
        super().__init__(watch)
        self._state = state
        self._ends = False

    def leads(self, left: int) -> int | None:
        step, last = int(self._state.global_step), int(self._state.max_steps)
        skipped = super().leads(min(left, last - step) if last > 0 else left)
        self._ends = skipped is None
        return skipped

    def leaves_out(self, turns: int) -> None:
        if not self._ends:
            super().leaves_out(turns)


class _Batches:
    """An epoch's batches, one turn of the loop for each."""

    def __init__(self, batches: Iterator[Any], loop: StepLoop, state: Any) -> None:
        self._batches = batches
        self._loop = loop
        self._state = state

    def __next__(self) -> Any:
        with self._loop.asking():
            batch = next(self._batches)
        self._state.global_step = self._loop.begins_turn(_STEP, int(self._state.global_step))
        return batch


def _install_trainer_steps(patches: Patches, watch: Watch, module: Any) -> None:
    """Into `transformers.trainer`."""
    state_kind, get_batch_samples = module.TrainerState, module.Trainer.get_batch_samples
    # The epoch that runs.
    running: dict[str, Any] = {"batches": None, "loop": None}

    def batch_samples(self: Any, batches: Any, *args: Any, **kwargs: Any) -> Any:
        if running["batches"] is not batches:
            running.update(batches=batches, loop=StepLoop(watch, self.state))
        turns = _Batches(batches, running["loop"], self.state)
        return get_batch_samples(self, turns, *args, **kwargs)

    def global_step(self: Any) -> int:
        step = self.__dict__[_STEP]
        if running["loop"] is None or not is_the_programs(sys._getframe(1).f_code.co_filename):
            return step
        return SeenStep(step).of(running["loop"].number(_STEP))

    def set_global_step(self: Any, step: int) -> None:
        self.__dict__[_STEP] = int(step)

    on_step_end = module.DefaultFlowCallback.on_step_end

    def ended_step(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        control = on_step_end(self, args, state, control, **kwargs)
        if int(state.global_step) == _STEPS_BEFORE:
            loop = running["loop"]
            steps = _steps_of_epoch(args, state, kwargs.get("train_dataloader"))
            # Where batches differ, what the allocator holds by then depends on how many came before.
            waits = watch.observer.differ or (loop and loop.number(_STEP).is_held_against())

            def comes_early(strategy: Any, every: Any) -> bool:
                return strategy == "steps" and not (waits and _is_met(loop, state, every, steps))

            control.should_evaluate |= comes_early(args.eval_strategy, state.eval_steps)
            control.should_save |= comes_early(args.save_strategy, state.save_steps)
        return control

    patches.set(module.DefaultFlowCallback, "on_step_end", ended_step)
    patches.set(module.Trainer, "get_batch_samples", batch_samples)
    patches.set(state_kind, _STEP, property(global_step, set_global_step))


def _steps_of_epoch(args: Any, state: Any, loader: Any) -> int:
    try:
        steps = len(loader) // args.gradient_accumulation_steps
    except TypeError:
        return 0
    return min(steps, int(state.max_steps)) if int(state.max_steps) > 0 else steps


def _is_met(loop: StepLoop | None, state: Any, every: Any, steps: int) -> bool:
    """Whether what is done every so many steps can come at its own time, which the steps are then led to."""
    if loop is None or not isinstance(every, (int, float)) or not 0 < every <= steps:
        return False
    loop.number(_STEP).looked(int(state.global_step), 0, int(every))
    return True


def install(patches: Patches, watch: Watch, overlay: Overlay, repeats: Repeats) -> None:
    os.environ.update(_VARIABLES)
    for module, owner, name, file in _WRITERS:
        when_imported(module, _only_headers(patches, watch, overlay, owner, name, file))
    when_imported(
        "transformers.generation.utils", lambda m: _generation(patches, watch, repeats, m)
    )
    when_imported("transformers.trainer", lambda m: _install_trainer_steps(patches, watch, m))
    when_imported("sklearn.metrics", lambda m: _scores(patches, m))
    when_imported("wandb", lambda m: _weights_and_biases(patches, m))
    when_imported("tokenizers", lambda m: _tokenizers(patches, overlay, m))
    when_imported("datasets.builder", lambda m: _data_sets(patches, overlay, m))


def _only_headers(
    patches: Patches, watch: Watch, overlay: Overlay, owner: str, name: str, file: str
) -> Callable[[Any], None]:
    def install_into(module: Any) -> None:
        def saved(self: Any, *args: Any, **kwargs: Any) -> None:
            # Accelerator.save_model(model, folder), and model.save_pretrained(folder).
            model, *rest = args if name == "save_model" else (self, *args)
            folder = rest[0] if rest else kwargs["save_directory"]
            with watch.within(SAVING):
                os.makedirs(folder, exist_ok=True)
                for config in _configs(model, whole=owner == "PreTrainedModel"):
                    config.save_pretrained(folder)
                state = kwargs.get("state_dict") or _state(model, module)
                write_header(overlay.writable(os.path.join(folder, file)), state)

        patches.set(getattr(module, owner), name, saved)

    return install_into


def _weights_and_biases(patches: Patches, module: Any) -> None:
    """Where a program says how it runs, its variable counts for nothing; a process of its own writes its files."""
    init = module.init

    def started(*args: Any, **kwargs: Any) -> Any:
        return init(*args, **{**kwargs, "mode": "disabled"})

    patches.set(module, "init", started)


def _scores(patches: Patches, module: Any) -> None:
    """Scores refuse values that no model gives: labels of a single class, probabilities that do not sum to one.

    What came from the GPU has made-up values. A score that refuses its arrays is computed again with others.
    """

    def lenient(score: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(score)
        def computed(*args: Any, **kwargs: Any) -> Any:
            try:
                return score(*args, **kwargs)
            except ValueError:
                for accepted in (_probabilities, _classes, _both):
                    given = [accepted(one, place) for place, one in enumerate(args)]
                    named = {name: accepted(one, name) for name, one in kwargs.items()}
                    with suppress(ValueError, TypeError):
                        return score(*given, **named)
                raise

        return computed

    for name in module.__all__:
        score = getattr(module, name)
        if inspect.isfunction(score):
            patches.set(module, name, lenient(score))


# The arguments of scores: labels come first.
_LABELS = (0, "y_true", "labels_true", "labels")
_GIVEN = (0, 1, *_LABELS, "y_pred", "y_score", "y_prob", "y_proba", "labels_pred")


def _probabilities(values: Any, place: int | str) -> Any:
    """With rows that sum to one, where they are several numbers."""
    array = _array(values, place)
    if array is None or array.ndim != 2 or array.dtype.kind != "f":
        return values
    positive = abs(array) + 1e-6
    return positive / positive.sum(1, keepdims=True)


def _classes(values: Any, place: int | str) -> Any:
    """Two classes in turn, for labels of one class, or that are no whole numbers."""
    array = _array(values, place)
    if array is None or place not in _LABELS or array.dtype.kind not in "biuf" or not array.size:
        return values
    if (array == array.astype("int64")).all() and (array != array.flat[0]).any():
        return values
    places = sys.modules["numpy"].indices(array.shape).sum(0)
    return (places % 2).astype(array.dtype)


def _both(values: Any, place: int | str) -> Any:
    return _classes(_probabilities(values, place), place)


def _array(values: Any, place: int | str) -> Any:
    return None if place not in _GIVEN or values is None else sys.modules["numpy"].asarray(values)


def _data_sets(patches: Patches, overlay: Overlay, module: Any) -> None:
    """Data sets are converted once, and mapped into memory from then on: their cache stays what it is."""
    overlay.leave_alone(module.config.HF_DATASETS_CACHE)
    make = module.DatasetBuilder.__init__

    def __init__(self: Any, cache_dir: Any = None, *args: Any, **kwargs: Any) -> None:
        if cache_dir is not None:
            overlay.leave_alone(cache_dir)
        make(self, cache_dir, *args, **kwargs)

    patches.set(module.DatasetBuilder, "__init__", __init__)


def _tokenizers(patches: Patches, overlay: Overlay, module: Any) -> None:
    """They are written in Rust, into a folder and with names of their own."""
    save_model = module.models.Model.save

    def saved_model(self: Any, folder: Any, *args: Any, **kwargs: Any) -> Any:
        written = os.path.dirname(overlay.writable(os.path.join(folder, "vocabulary")))
        return save_model(self, written, *args, **kwargs)

    patches.set(module.models.Model, "save", saved_model)


def _configs(model: Any, whole: bool) -> list[Any]:
    adapters = getattr(model, "peft_config", None)
    configs = (
        [*adapters.values()] if isinstance(adapters, dict) else [getattr(model, "config", None)]
    )
    if whole and not isinstance(adapters, dict):
        # Readers of the folder choose a class by its name, and how to generate by a file of its own.
        model.config.dtype = str(model.dtype).removeprefix("torch.")
        model.config.architectures = [type(model).__name__.removeprefix("FSDP")]
        configs.append(model.generation_config if model.can_generate() else None)
    return [config for config in configs if hasattr(config, "save_pretrained")]


def _state(model: Any, module: Any) -> Any:
    adapters = getattr(module, "get_peft_model_state_dict", None)
    return model.state_dict() if adapters is None else adapters(model)


def _generation(patches: Patches, watch: Watch, repeats: Repeats, module: Any) -> None:
    generate = module.GenerationMixin.generate

    def generating(self: Any, *args: Any, **kwargs: Any) -> Any:
        with watch.within(GENERATING), watch.observer.texts.generated_by(self):
            return repeats.generate(self, generate, args, kwargs)

    patches.set(module.GenerationMixin, "generate", generating)
    # Whether a beam can still improve is not known; as long as none hits the last length, one can.
    if hasattr(module.GenerationMixin, "_beam_search_has_unfinished_sequences"):
        patches.set(
            module.GenerationMixin,
            "_beam_search_has_unfinished_sequences",
            staticmethod(_goes_on),
        )


def _goes_on(improves: Any, finished: Any, hits_limit: Any, early_stopping: Any) -> bool:
    known = small_values.value_of(hits_limit)
    return known is None or not bool(known.all())
