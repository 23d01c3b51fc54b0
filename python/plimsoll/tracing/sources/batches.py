"""The batch that a model of transformers takes: its inputs, and the labels that its head learns from."""

from __future__ import annotations

import inspect
from typing import Any, Callable

import torch

from ...failure import Failure
from ..workload import Settings

Batch = dict[str, Any]
# Of a text that answers are chosen for, and of sound where a config does not say.
_CHOICES = 2
_USUAL_SAMPLES, _USUAL_FRAMES, _USUAL_WIDTH = 16000, 1000, 80
_USUAL_IMAGE = 224
# Sound: samples for one label of a transcript.
_SAMPLES_PER_LABEL = 1000


def batch_for(model: Any, settings: Settings) -> Batch:
    """Made again for each step, on the device that is current."""
    takes = inspect.signature(model.forward).parameters
    with torch.device("meta"):
        batch = _inputs(model, takes)(model, takes, settings)
        if settings.training:
            batch.update(_labels(model, takes, settings, batch))
    return batch


def _inputs(model: Any, takes: Any) -> Callable[[Any, Any, Settings], Batch]:
    if _contrasts(takes):
        # Texts are held against images, so it takes both whichever it names first.
        return _images
    inputs = {"pixel_values": _images, "input_features": _spectra, "input_values": _waves}
    return inputs.get(model.main_input_name, _tokens)


def is_text_alone(model: Any, settings: Settings) -> bool:
    """Whether a model that could take images gets none."""
    takes = inspect.signature(model.forward).parameters
    could = "pixel_values" in takes and model.main_input_name not in (
        "pixel_values",
        "input_features",
    )
    return could and not settings.image and not _contrasts(takes)


def target_notes(model: Any, settings: Settings) -> list[str]:
    """How long the labels are taken to be; a length that no labels have is refused."""
    takes = inspect.signature(model.forward).parameters
    if not _has_target(model, takes):
        if not settings.target_seq:
            return []
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
            f"labels are taken to be one token for {_SAMPLES_PER_LABEL} samples, unless a length is given"
        ]
    tokens = half(settings)
    return [
        f"labels are taken to be half as long as the input, {tokens} tokens, unless a length is given"
    ]


def half(settings: Settings) -> int:
    return max(1, (settings.seq or 1) // 2)


def _contrasts(takes: Any) -> bool:
    return {"return_loss", "input_ids", "pixel_values"} <= set(takes)


def text_config(config: Any) -> Any:
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _tokens(model: Any, takes: Any, settings: Settings) -> Batch:
    config = model.config
    ids = _ids(config, settings)
    if type(model).__name__.endswith("MultipleChoice"):
        ids = ids.unsqueeze(1).repeat(1, _CHOICES, 1)
    batch = {"input_ids": ids}
    if "pixel_values" in takes and settings.image:
        batch["pixel_values"] = _pixels(config, settings)
    if "bbox" in takes:
        batch["bbox"] = torch.zeros(settings.batch, ids.shape[-1], 4, dtype=torch.long)
    if _has_target(model, takes):
        batch["labels"] = _target(config, settings, settings.target_seq or half(settings))
        if not hasattr(model, "prepare_decoder_input_ids_from_labels"):
            batch["decoder_input_ids"] = batch["labels"]
    return batch


def _images(model: Any, takes: Any, settings: Settings) -> Batch:
    batch = {"pixel_values": _pixels(model.config, settings)}
    if "input_ids" in takes:
        batch["input_ids"] = _ids(model.config, settings)
    if "bool_masked_pos" in takes and "Masked" in type(model).__name__:
        batch["bool_masked_pos"] = torch.ones(
            settings.batch, _patches(model.config, settings)
        ).bool()
    if getattr(model.config, "is_encoder_decoder", False) and "labels" in takes:
        batch["labels"] = _target(model.config, settings, settings.target_seq or settings.seq or 1)
    return batch


def _spectra(model: Any, takes: Any, settings: Settings) -> Batch:
    config = model.config
    audio = getattr(config, "audio_config", config)
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
    if _has_target(model, takes):
        batch["labels"] = _target(config, settings, settings.target_seq or settings.seq or 1)
    return batch


_SPECTRUM_WIDTHS = (
    "feature_projection_input_dim",
    "input_feat_per_channel",
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
    batch = {"input_values": torch.randn(shape, dtype=settings.dtype)}
    if _has_target(model, takes):
        length = settings.target_seq or _transcript(shape[1])
        batch["labels"] = _target(config, settings, length)
    return batch


def _transcript(samples: int) -> int:
    return max(1, samples // _SAMPLES_PER_LABEL)


def _labels(model: Any, takes: Any, settings: Settings, batch: Batch) -> Batch:
    name, config = type(model).__name__, model.config
    if "start_positions" in takes:
        places = {key: torch.zeros(settings.batch, dtype=torch.long) for key in _POSITIONS}
        return {key: value for key, value in places.items() if key in takes}
    if "return_loss" in takes and "labels" not in takes:
        return {"return_loss": True}
    if "labels" not in takes or "labels" in batch:
        return {}
    if _classifies(model):
        return {"labels": _classes(config, settings)}
    if name.endswith("CTC"):
        samples = next(iter(batch.values())).shape[1]
        return {"labels": _target(config, settings, _transcript(samples))}
    if name.endswith(("SemanticSegmentation", "ForInstanceSegmentation")):
        shape = (settings.batch, *batch["pixel_values"].shape[2:])
        return {"labels": torch.randint(0, max(1, config.num_labels), shape)}
    if "input_ids" not in batch:
        return {}
    labels: Batch = {"labels": batch["input_ids"]}
    if name.endswith("TokenClassification"):
        labels = {"labels": torch.randint(0, max(1, config.num_labels), batch["input_ids"].shape)}
    for second in ("next_sentence_label", "sentence_order_label"):
        if second in takes:
            labels[second] = torch.zeros(settings.batch, dtype=torch.long)
    return labels


_POSITIONS = ("start_positions", "end_positions")
_CLASSIFIERS = (
    "SequenceClassification",
    "ImageClassification",
    "ImageClassificationWithTeacher",
    "AudioClassification",
    "NextSentencePrediction",
    "MultipleChoice",
    "XVector",
    "VideoClassification",
)


def _classifies(model: Any) -> bool:
    return type(model).__name__.endswith(_CLASSIFIERS)


def _has_target(model: Any, takes: Any) -> bool:
    """Whether a decoder beside an encoder learns a text of its own."""
    with_decoder = getattr(model.config, "is_encoder_decoder", False) and "labels" in takes
    return with_decoder and not _classifies(model)


def _classes(config: Any, settings: Settings) -> Any:
    count = getattr(config, "num_labels", 2) or 2
    if getattr(config, "problem_type", None) == "multi_label_classification":
        return torch.zeros(settings.batch, count)
    if count == 1:
        return torch.zeros(settings.batch)
    return torch.randint(0, count, (settings.batch,))


def _ids(config: Any, settings: Settings) -> Any:
    return _target(config, settings, settings.seq or 1)


def _target(config: Any, settings: Settings, length: int) -> Any:
    vocabulary = getattr(text_config(config), "vocab_size", None) or getattr(
        config, "vocab_size", 2
    )
    return torch.randint(0, vocabulary, (settings.batch, length))


def _size(config: Any, settings: Settings) -> int:
    vision = getattr(config, "vision_config", None)
    own = getattr(vision or config, "image_size", None)
    own = own[0] if isinstance(own, (list, tuple)) and own else own
    # With a text beside them, seq is the text's.
    asked = settings.image or (0 if vision is not None else settings.seq)
    return asked or (own if isinstance(own, int) else _USUAL_IMAGE)


def _pixels(config: Any, settings: Settings) -> Any:
    vision = getattr(config, "vision_config", None) or config
    size = _size(config, settings)
    channels = getattr(vision, "num_channels", None)
    channels = channels if isinstance(channels, int) else 3
    shape = [settings.batch, channels, size, size]
    if isinstance(getattr(vision, "num_frames", None), int):
        shape.insert(1, vision.num_frames)
    return torch.randn(shape, dtype=settings.dtype)


def _patches(config: Any, settings: Settings) -> int:
    patch = config.patch_size
    return (_size(config, settings) // (patch if isinstance(patch, int) else patch[0])) ** 2
