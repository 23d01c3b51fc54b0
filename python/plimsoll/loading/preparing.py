"""A loaded model made ready for training: through adapters where its weights are quantized, else as a whole."""

from __future__ import annotations

from typing import Any

from ..optimizing.checkpointing import checkpoint


def prepare_for_training(model: Any, bits: int) -> None:
    """Quantized weights cannot be trained: all that was loaded is frozen, and adapters learn (LoRA).

    Activations are computed again in backward. Where nothing below the adapters is trained, gradients reach them
    only if the inputs carry some, so these are asked for.
    """
    if bits < 16:
        for parameter in model.parameters():
            parameter.requires_grad_(False)
    model.train()
    checkpoint(model)
    ask = getattr(model, "enable_input_require_grads", None)
    if ask is not None:
        ask()


def tokenizer_of(source: str, options: dict[str, Any]) -> Any:
    """Of the same repository or folder and revision; without a token for padding it pads with its last one."""
    import transformers

    names = ("revision", "trust_remote_code", "token", "cache_dir", "local_files_only", "subfolder")
    same = {name: options[name] for name in names if name in options}
    made = transformers.AutoTokenizer.from_pretrained(source, **same)
    if made.pad_token is None and made.eos_token is not None:
        made.pad_token = made.eos_token
    return made
