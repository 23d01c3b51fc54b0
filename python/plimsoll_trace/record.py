"""One recording: builds the workload under observation, then runs its loop."""

from __future__ import annotations

import gc
import os
import traceback
from argparse import Namespace
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from plimsoll.failure import MISSING_PACKAGE, Failure
from plimsoll.progress import report_progress

from . import ledger as kinds
from . import optimizers, quantized
from .facts import Facts
from .gpu import gpu_of
from .ledger import Ledger
from .loop import Loop
from .module_names import ModuleNames
from .observer import Observer
from .programs.files.view import View
from .sharding import shard, zero
from .sharding.parallel import Parallel, parallel_of
from .sharding.world import world
from .standins.environment import cuda_like
from .standins.patches import Patches
from .workload import Settings, Workload

# LoRA adapters on every linear layer but the output layer, as peft adds them.
#
# peft itself is run where it is installed. Else layers of our own take its place, which follow its
# 0.21: adapters are in float32 even beside weights in 16 bits, their input is cast to that first, and
# the sum is cast back; there is no dropout; nothing but the adapters learns.


def add_adapters(workload: Workload, rank: int) -> None:
    """Replaces the workload's model with one whose adapters learn."""
    try:
        import peft
    except ImportError:
        _stand_in(workload, rank)
        return
    with torch.device("meta"):
        config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
        try:
            workload.model = peft.get_peft_model(workload.model, config)
        except ValueError as error:
            raise Failure(
                "lora-refused", f"peft: {str(error).splitlines()[0]}", "leave --lora out"
            ) from error


class Adapted(torch.nn.Module):
    """A frozen linear layer and the adapter beside it."""

    def __init__(self, layer: Any, rank: int, inputs: int, outputs: int):
        super().__init__()
        self.layer = layer
        self.down = torch.nn.Linear(inputs, rank, bias=False, dtype=torch.float32)
        self.up = torch.nn.Linear(rank, outputs, bias=False, dtype=torch.float32)

    @property
    def weight(self) -> Any:
        return self.layer.weight

    def forward(self, x):
        result = self.layer(x)
        dtype = result.dtype
        x = x.to(self.down.weight.dtype)
        result = result + self.up(self.down(x)) * 2.0
        return result.to(dtype)


def _stand_in(workload: Workload, rank: int) -> None:
    model = workload.model
    model.requires_grad_(False)
    output = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    found = 0
    with torch.device("meta"):
        for module in list(model.modules()):
            for name, child in list(module.named_children()):
                sizes = _sizes(child)
                if sizes is not None and child is not output:
                    setattr(module, name, Adapted(child, rank, *sizes))
                    found += 1
    if not found:
        raise Failure("lora-refused", "the model has no linear layer to adapt", "leave --lora out")
    if getattr(model, "is_gradient_checkpointing", False):
        model.enable_input_require_grads()
    workload.notes.append("peft is not installed; adapters like its own were taken")


def _sizes(module: Any) -> Any:
    if isinstance(module, torch.nn.Linear):
        return module.in_features, module.out_features
    # GPT-2's linear layers, which keep their weight the other way round.
    if type(module).__name__ == "Conv1D" and getattr(module, "weight", None) is not None:
        return tuple(module.weight.shape)
    return None


_OWN = os.path.dirname(os.path.abspath(__file__))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))


@dataclass
class Recording:
    ledger: Ledger
    parameters: int = 0
    parameter_bytes: int = 0
    notes: list[str] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    # How a program spreads its model over processes, where one of PyTorch's wrappers does it.
    parallel: Parallel | None = None
    # What a program's answer depends on, by kind; None where that is not all known.
    files: dict[str, list[str]] | None = None


def record(options: Namespace, view: View | None = None) -> Recording:
    """Runs what the options name; everything it changes in PyTorch is put back. `view`: what it sees of the files."""
    settings = settings_of(options)
    if options.program is not None:
        from .programs import run

        recording = Recording(Ledger())
        run.record(options, settings.gpu, recording, view)
        return recording
    names = ModuleNames()
    observer = Observer(Ledger(), settings.gpu, names.current)
    recording = Recording(observer.ledger)
    try:
        ranks = nullcontext() if settings.parallel is None else world(observer, settings.parallel)
        with cuda_like(observer, names), ranks as patches, observer:
            _run(options, settings, observer, names, recording, patches)
    except Failure:
        raise
    except Exception as error:
        raise _failure_of(error) from error
    recording.notes = sorted(observer.notes)
    recording.facts = observer.facts
    return recording


def settings_of(options: Namespace) -> Settings:
    return Settings(
        mode=options.mode,
        batch=options.batch,
        seq=options.seq or 0,
        image=options.image or 0,
        precision=options.precision,
        optimizer=options.optimizer,
        checkpointing=options.checkpointing,
        lora=options.lora or 0,
        steps=options.steps,
        quantization=options.quantization or "",
        target_seq=options.target_seq or 0,
        keep=options.keep or "",
        accumulation=options.accumulation,
        parallel=parallel_of(options),
        gpu=gpu_of(options.gpu, options.capability, options.multiprocessors, options.gpu_memory),
    )


def _run(
    options: Namespace,
    settings: Settings,
    observer: Observer,
    names: ModuleNames,
    recording: Recording,
    patches: Patches | None,
) -> None:
    quantized.check(settings, options.config)
    report_progress("build", 0, settings.steps)
    elsewhere = shard.built_elsewhere(settings)
    observer.recording = not quantized.applies(settings) and not elsewhere
    workload = _load(options, settings)
    observer.recording = not elsewhere
    if quantized.applies(settings):
        quantized.quantize(workload.model, settings, observer)
    if settings.lora:
        add_adapters(workload, settings.lora)
    parameters = quantized.count(workload.model)
    parameter_bytes = sum(p.numel() * p.element_size() for p in workload.model.parameters())
    if settings.parallel is not None and patches is not None:
        shard.spread(workload, settings.parallel, observer, patches)
    model = workload.model
    observer.notes.update(workload.notes)
    names.learn(model)
    observer.ledger.mark("built")
    gc.collect()
    observer.ledger.empty_cache()
    observer.ledger.mark("ready")
    _label_weights(observer, model)
    recording.parameters = parameters
    recording.parameter_bytes = parameter_bytes
    Loop(observer, workload, settings, _optimizer(workload, settings, observer), names).run()


def _optimizer(workload: Workload, settings: Settings, observer: Observer) -> Any:
    parallel = settings.parallel
    if not settings.training:
        return None
    if parallel is not None and parallel.way in ("zero2", "zero3"):
        return zero.Zero(workload.model, parallel, observer)
    if parallel is not None and parallel.offload == "optimizer":
        return None
    if workload.optimizer is None:
        spread = parallel is not None and parallel.way == "zero1"
        return optimizers.make(settings.optimizer, workload.model, spread)
    made = workload.optimizer(workload.model)
    observer.notes.add(f"the optimizer is the one that workload() returns: {type(made).__name__}")
    return made


def _load(options: Namespace, settings: Settings) -> Workload:
    if options.config:
        from .sources import hugging_face

        return hugging_face.load(options.config, settings)
    if options.torchvision:
        from .sources import vision

        return vision.load(options.torchvision, settings)
    from .sources import live, script

    if live.socket_of(options.script, options.arg) is not None:
        return live.load(settings)
    return script.load(options.script, options.arg, settings)


def _label_weights(observer: Observer, model: torch.nn.Module) -> None:
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.device.type == "meta":
            observer.ledger.label(observer.ident_of(tensor), kinds.WEIGHT, name.rpartition(".")[0])


def _failure_of(error: Exception) -> Failure:
    """One line that says what went wrong in the model's own code, and where."""
    lines = str(error).strip().splitlines()
    fact = "{}: {}".format(type(error).__name__, lines[0][:300] if lines else "no message")
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((_OWN, _TORCH))] or frames
    where = f"{own[-1].filename}:{own[-1].lineno}" if own else ""
    if isinstance(error, NotImplementedError) and "Meta tensors" in fact:
        op = fact.split(": ")[1]
        return Failure(
            "op-not-traced",
            f"the model uses {op}, which cannot be followed without a GPU",
            "take --method formula, or measure it on a GPU",
            where,
        )
    if isinstance(error, ImportError):
        return Failure(
            "package-missing",
            f"the model needs a package that this Python lacks: {fact.partition(': ')[2]}",
            "install it with pip, or name another Python",
            where,
            status=MISSING_PACKAGE,
        )
    return Failure("model-failed", fact, "check that batch, seq and image suit the model", where)
