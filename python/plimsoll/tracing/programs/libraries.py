"""Stand-ins for libraries that programs train with, put in place once a program imports them."""

from __future__ import annotations

import os
from typing import Any, Callable

from .. import small_values
from ..standins.imports import when_imported
from ..standins.patches import Patches
from .files.overlay import Overlay
from .loops import trainer_steps
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


def install(patches: Patches, watch: Watch, overlay: Overlay, repeats: Repeats) -> None:
    os.environ.update(_VARIABLES)
    for module, owner, name, file in _WRITERS:
        when_imported(module, _only_headers(patches, watch, overlay, owner, name, file))
    when_imported(
        "transformers.generation.utils", lambda m: _generation(patches, watch, repeats, m)
    )
    when_imported("transformers.trainer", lambda m: trainer_steps.install(patches, watch, m))
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
