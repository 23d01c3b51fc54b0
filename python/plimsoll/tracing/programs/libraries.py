"""Stand-ins for libraries that programs train with, put in place once a program imports them."""

from __future__ import annotations

import os
from typing import Any, Callable

from .. import small_values
from ..standins.imports import when_imported
from ..standins.patches import Patches
from .watch import GENERATING, SAVING, Watch

# Trackers would open connections, and a progress bar says nothing to anyone.
_VARIABLES = {
    "WANDB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TQDM_DISABLE": "1",
}
# Evaluation and saving of a Trainer that would come after thousands of steps come after so many.
_STEPS_BEFORE = 3
# What writes weights without torch.save: it would look for their bytes. Module, class or "", function.
_WRITERS = (
    ("transformers.modeling_utils", "PreTrainedModel", "save_pretrained"),
    ("peft.peft_model", "PeftModel", "save_pretrained"),
    ("accelerate.accelerator", "Accelerator", "save_model"),
    ("safetensors.torch", "", "save_file"),
    ("safetensors.torch", "", "save_model"),
)


def install(patches: Patches, watch: Watch) -> None:
    os.environ.update(_VARIABLES)
    for module, owner, name in _WRITERS:
        when_imported(module, _not_written(patches, watch, owner, name))
    when_imported("transformers.generation.utils", lambda m: _generation(patches, watch, m))
    when_imported("transformers.trainer_callback", lambda m: _flow(patches, m))


def _not_written(patches: Patches, watch: Watch, owner: str, name: str) -> Callable[[Any], None]:
    def install_into(module: Any) -> None:
        place = getattr(module, owner) if owner else module

        def writes_nothing(*_: Any, **__: Any) -> None:
            with watch.within(SAVING):
                return

        patches.set(place, name, writes_nothing)

    return install_into


def _generation(patches: Patches, watch: Watch, module: Any) -> None:
    generate = module.GenerationMixin.generate

    def generating(self: Any, *args: Any, **kwargs: Any) -> Any:
        with watch.within(GENERATING):
            return generate(self, *args, **kwargs)

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


def _flow(patches: Patches, module: Any) -> None:
    on_step_end = module.DefaultFlowCallback.on_step_end

    def sooner(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        control = on_step_end(self, args, state, control, **kwargs)
        if state.global_step == _STEPS_BEFORE:
            control.should_evaluate |= args.eval_strategy == "steps"
            control.should_save |= args.save_strategy == "steps"
        return control

    patches.set(module.DefaultFlowCallback, "on_step_end", sooner)
