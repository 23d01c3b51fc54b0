"""The batch that a model of transformers takes: its inputs, and the labels that its head learns from."""

from __future__ import annotations

import inspect
from typing import Any, Callable

import torch

from ...failure import Failure
from ..workload import Settings
from . import labels
from .series import series
from .shapes import SAMPLES_PER_LABEL, grid, patches, pixels, tokens, transcript

Batch = dict[str, Any]
# Of a text that answers are chosen for, and of sound where a config does not say.
_CHOICES = 2
_USUAL_SAMPLES, _USUAL_FRAMES, _USUAL_WIDTH = 16000, 1000, 80
# Families that do not run on text alone, though their text comes first.
_NEED_IMAGES = {"bridgetower", "git", "vilt"}
# Families whose sound has a dimension for its channels, of which there is one.
_WITH_CHANNELS = {
    "dac",
    "encodec",
    "mimi",
    "pe_audio_encoder",
    "vibevoice_acoustic_tokenizer",
    "xcodec",
}


def batch_for(model: Any, settings: Settings) -> Batch:
    """Made again for each step, on the device that is current."""
    takes = inspect.signature(model.forward).parameters
    with torch.device("meta"):
        batch = _inputs(model, takes)(model, takes, settings)
        if settings.training:
            batch.update(labels.labels_for(model, takes, settings, batch))
    _require_all(model, takes, batch)
    return batch


def _require_all(model: Any, takes: Any, batch: Batch) -> None:
    missing = [
        name
        for name, parameter in takes.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and name not in batch
    ]
    if missing:
        raise Failure(
            "inputs-unknown",
            f"{type(model).__name__} takes inputs that a config does not tell: {', '.join(missing)}",
            "if it is a part of a model, name the config of the whole; else write a workload() for --script",
        )


def _inputs(model: Any, takes: Any) -> Callable[[Any, Any, Settings], Batch]:
    if _contrasts(takes):
        # Texts are held against images, so it takes both whichever it names first.
        return _images
    if "past_values" in takes and hasattr(model.config, "context_length"):
        return series
    inputs = {
        "pixel_values": _images,
        "pixel_values_videos": _images,
        "input_features": _spectra,
        "input_values": _waves,
    }
    return inputs.get(model.main_input_name, _tokens)


def is_text_alone(model: Any, settings: Settings) -> bool:
    """Whether a model that could take images gets none."""
    takes = inspect.signature(model.forward).parameters
    could = "pixel_values" in takes and model.main_input_name not in (
        "pixel_values",
        "input_features",
    )
    return could and not _gets_images(model, takes, settings) and not _contrasts(takes)


def _gets_images(model: Any, takes: Any, settings: Settings) -> bool:
    needs = getattr(model.config, "model_type", "") in _NEED_IMAGES
    return "pixel_values" in takes and (bool(settings.image) or needs)


def target_notes(model: Any, settings: Settings) -> list[str]:
    """How long the labels are taken to be; a length that no labels have is refused."""
    takes = inspect.signature(model.forward).parameters
    if not _has_target(model, takes):
        if not settings.target_seq:
            return _object_notes(model, takes, settings)
        raise Failure(
            "no-target",
            f"{type(model).__name__} has no decoder beside an encoder, so its labels have no length of their own",
            "leave --target-seq out",
        )
    inputs = _inputs(model, takes)
    if settings.target_seq or inputs not in (_tokens, _waves):
        return []
    if inputs is _waves:
        return [
            f"labels are taken to be one token for {SAMPLES_PER_LABEL} samples, unless a length is given"
        ]
    count = half(settings)
    return [
        f"labels are taken to be half as long as the input, {count} tokens, unless a length is given"
    ]


def _object_notes(model: Any, takes: Any, settings: Settings) -> list[str]:
    if settings.training and (labels.finds_objects(model) or labels.finds_masks(takes)):
        return [f"each image is taken to show {labels.OBJECTS} objects"]
    return []


def half(settings: Settings) -> int:
    return max(1, (settings.seq or 1) // 2)


def _contrasts(takes: Any) -> bool:
    return {"return_loss", "input_ids", "pixel_values"} <= set(takes)


def _tokens(model: Any, takes: Any, settings: Settings) -> Batch:
    config = model.config
    ids = tokens(config, settings, settings.seq or 1)
    if type(model).__name__.endswith("MultipleChoice"):
        ids = ids.unsqueeze(1).repeat(1, _CHOICES, 1)
    batch = {"input_ids": ids}
    if _gets_images(model, takes, settings):
        batch["pixel_values"] = pixels(config, settings)
    if "bbox" in takes:
        # Places on a page of a thousand parts each way; of UDOP, shares of the page.
        kind = settings.dtype if config.model_type == "udop" else torch.long
        batch["bbox"] = torch.zeros(settings.batch, ids.shape[-1], 4, dtype=kind)
    if _has_target(model, takes):
        batch["labels"] = tokens(config, settings, settings.target_seq or half(settings))
        if not hasattr(model, "prepare_decoder_input_ids_from_labels"):
            batch["decoder_input_ids"] = batch["labels"]
    return batch


def _images(model: Any, takes: Any, settings: Settings) -> Batch:
    config = model.config
    name = "pixel_values" if "pixel_values" in takes else model.main_input_name
    batch = {name: pixels(config, settings)}
    if "spatial_shapes" in takes:
        batch.update(_cut_images(config, settings))
    if "input_ids" in takes:
        batch["input_ids"] = tokens(config, settings, settings.seq or 1)
    if "bool_masked_pos" in takes and "Masked" in type(model).__name__:
        batch["bool_masked_pos"] = torch.ones(settings.batch, patches(config, settings)).bool()
    if _has_target(model, takes):
        batch["labels"] = tokens(config, settings, settings.target_seq or settings.seq or 1)
    return batch


def _cut_images(config: Any, settings: Settings) -> Batch:
    """Images that are cut into patches before the model gets them."""
    vision = getattr(config, "vision_config", None) or config
    rows, columns = grid(config, settings)
    count = rows * columns
    width = getattr(vision, "num_channels", 3) * vision.patch_size**2
    return {
        "pixel_values": torch.randn(settings.batch, count, width, dtype=settings.dtype),
        "pixel_attention_mask": torch.ones(settings.batch, count, dtype=torch.long),
        "spatial_shapes": torch.tensor([[rows, columns]] * settings.batch),
    }


def _spectra(model: Any, takes: Any, settings: Settings) -> Batch:
    config = model.config
    parts = [getattr(config, name, None) for name in ("audio_config", "encoder_config")]
    audio = next((part for part in parts if part is not None), config)
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_source_positions"):
        shape = (config.num_mel_bins, 2 * config.max_source_positions)
        if not type(model).__name__.startswith(("Whisper", "Moonshine")):
            shape = (settings.seq or _USUAL_FRAMES, config.num_mel_bins)
    else:
        widths = [getattr(audio, name, None) for name in _SPECTRUM_WIDTHS]
        shape = (
            settings.seq or _USUAL_FRAMES,
            next((w for w in widths if isinstance(w, int)), _USUAL_WIDTH),
        )
    batch = {"input_features": torch.randn(settings.batch, *shape, dtype=settings.dtype)}
    if type(model).__name__.endswith("CTC") and audio is not config:
        # The lengths are read from it.
        batch["attention_mask"] = torch.ones(settings.batch, shape[0], dtype=torch.long)
    if _has_target(model, takes):
        batch["labels"] = tokens(config, settings, settings.target_seq or settings.seq or 1)
    return batch


_SPECTRUM_WIDTHS = (
    "feature_projection_input_dim",
    "input_feat_per_channel",
    "input_dim",
    "num_mel_bins",
    "feature_size",
)


def _waves(model: Any, takes: Any, settings: Settings) -> Batch:
    """Sound as it was sampled, where `seq` counts samples; or its spectrum, which is cut like an image."""
    config = model.config
    if (
        hasattr(config, "max_length")
        and hasattr(config, "num_mel_bins")
        and hasattr(config, "patch_size")
    ):
        shape: tuple[int, ...] = (settings.batch, config.max_length, config.num_mel_bins)
    else:
        shape = (settings.batch, settings.seq or _USUAL_SAMPLES)
    if config.model_type in _WITH_CHANNELS:
        shape = (settings.batch, 1, *shape[1:])
    batch = {"input_values": torch.randn(shape, dtype=settings.dtype)}
    if _has_target(model, takes):
        length = settings.target_seq or transcript(shape[1])
        batch["labels"] = tokens(config, settings, length)
    return batch


def _has_target(model: Any, takes: Any) -> bool:
    """Whether a decoder beside an encoder learns a text of its own."""
    with_decoder = getattr(model.config, "is_encoder_decoder", False) and "labels" in takes
    finds = labels.classifies(model) or labels.finds_objects(model)
    return with_decoder and not finds
