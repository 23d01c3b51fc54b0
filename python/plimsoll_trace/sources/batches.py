"""The batch that a model of transformers takes: its inputs, and the labels that its head learns from."""

from __future__ import annotations

import inspect
from typing import Any, Callable

import torch

from plimsoll.failure import Failure

from ..workload import Settings

# How large the inputs of a model of transformers are, as its config and the settings say.

_USUAL_IMAGE = 224
# Sound: samples for one label of a transcript.
SAMPLES_PER_LABEL = 1000


def text_config(config: Any) -> Any:
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def tokens(config: Any, settings: Settings, length: int) -> Any:
    vocabulary = getattr(text_config(config), "vocab_size", None) or getattr(
        config, "vocab_size", 2
    )
    return torch.randint(0, vocabulary, (settings.batch, length))


def transcript(samples: int) -> int:
    return max(1, samples // SAMPLES_PER_LABEL)


def image_size(config: Any, settings: Settings) -> tuple[int, int]:
    """Height and width; one number stands for both."""
    vision = getattr(config, "vision_config", None)
    # With a text beside them, seq is the text's.
    asked = settings.image or (0 if vision is not None else settings.seq)
    if asked:
        return asked, asked
    inside = getattr(vision or config, "backbone_config", None)
    for part in (vision or config, inside):
        for name in ("image_size", "crop_size"):
            own = getattr(part, name, None)
            if isinstance(own, (list, tuple)) and len(own) == 2:
                return own[0], own[1]
            if isinstance(own, int):
                return own, own
    return _USUAL_IMAGE, _USUAL_IMAGE


def pixels(config: Any, settings: Settings) -> Any:
    vision = getattr(config, "vision_config", None) or config
    channels = getattr(vision, "num_channels", None)
    channels = channels if isinstance(channels, int) else 3
    shape = [settings.batch, channels, *image_size(config, settings)]
    for name in ("num_frames", "frames_per_clip"):
        if isinstance(getattr(vision, name, None), int):
            shape.insert(1, getattr(vision, name))
            break
    return torch.randn(shape, dtype=settings.dtype)


def patches(config: Any, settings: Settings) -> int:
    """How many parts an image is cut into."""
    rows, columns = grid(config, settings)
    return rows * columns


def grid(config: Any, settings: Settings) -> tuple[int, int]:
    vision = getattr(config, "vision_config", None) or config
    patch = vision.patch_size
    high, wide = (patch, patch) if isinstance(patch, int) else patch[:2]
    height, width = image_size(config, settings)
    return height // high, width // wide


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


def series(model: Any, takes: Any, settings: Settings) -> dict[str, Any]:
    """The batch of a model that continues series of numbers: what was measured, and what came after it."""
    config = model.config
    past, future = config.context_length, getattr(config, "prediction_length", None) or 1
    if hasattr(config, "lags_sequence"):
        # Earlier values are given beside those of the context.
        past += max(config.lags_sequence)
    channels = _channels(config)
    batch = {"past_values": _numbers(settings, past, *channels)}
    if "past_time_features" in takes:
        features = config.num_time_features
        batch["past_time_features"] = _numbers(settings, past, features)
        batch["past_observed_mask"] = torch.ones(settings.batch, past, *channels).bool()
        batch["future_time_features"] = _numbers(settings, future, features)
    if settings.training and "future_values" in takes:
        batch["future_values"] = _numbers(settings, future, *channels)
    for kind in ("categorical", "real"):
        count = getattr(config, f"num_static_{kind}_features", 0)
        if count and f"static_{kind}_features" in takes:
            dtype = torch.long if kind == "categorical" else settings.dtype
            batch[f"static_{kind}_features"] = torch.zeros(settings.batch, count, dtype=dtype)
    return batch


def _channels(config: Any) -> tuple[int, ...]:
    """The dimension for several series; models that take a single one have no such dimension."""
    if hasattr(config, "num_input_channels"):
        return (config.num_input_channels,)
    return () if getattr(config, "input_size", 1) == 1 else (config.input_size,)


def _numbers(settings: Settings, *shape: int) -> Any:
    return torch.randn(settings.batch, *shape, dtype=settings.dtype)


# The labels that the head of a model of transformers learns from.

# Things to find in an image: as many as images of COCO have, on average.
OBJECTS = 7
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


def classifies(model: Any) -> bool:
    return type(model).__name__.endswith(_CLASSIFIERS)


def finds_objects(model: Any) -> bool:
    name = type(model).__name__
    return name.endswith("ObjectDetection") or name == "DetrForSegmentation"


def finds_masks(takes: Any) -> bool:
    """Whether each thing in an image has a mask and a class of its own."""
    return {"mask_labels", "class_labels"} <= set(takes)


def labels_for(model: Any, takes: Any, settings: Settings, batch: dict[str, Any]) -> dict[str, Any]:
    name, config = type(model).__name__, model.config
    if "start_positions" in takes:
        places = {key: torch.zeros(settings.batch, dtype=torch.long) for key in _POSITIONS}
        return {key: value for key, value in places.items() if key in takes}
    if "return_loss" in takes and "labels" not in takes:
        return {"return_loss": True}
    if finds_masks(takes):
        return _masks(config, settings, batch)
    if "labels" not in takes or "labels" in batch:
        return {}
    if classifies(model):
        return {"labels": _classes(config, settings)}
    if finds_objects(model):
        return {"labels": _objects(model, settings, batch)}
    if name.endswith("CTC"):
        samples = next(iter(batch.values())).shape[1]
        return {"labels": tokens(config, settings, transcript(samples))}
    if name.endswith(("SemanticSegmentation", "ForInstanceSegmentation")):
        shape = (settings.batch, *batch["pixel_values"].shape[2:])
        return {"labels": torch.randint(0, max(1, config.num_labels), shape)}
    if name.endswith("DepthEstimation"):
        shape = (settings.batch, *batch["pixel_values"].shape[2:])
        return {"labels": torch.randn(shape, dtype=settings.dtype)}
    if name == "ViltForQuestionAnswering":
        return {"labels": torch.zeros(settings.batch, config.num_labels, dtype=settings.dtype)}
    return _of_text(name, config, takes, settings, batch)


def _of_text(
    name: str, config: Any, takes: Any, settings: Settings, batch: dict[str, Any]
) -> dict[str, Any]:
    if "input_ids" not in batch:
        return {}
    labels: dict[str, Any] = {"labels": batch["input_ids"]}
    if name.endswith("TokenClassification"):
        labels = {"labels": torch.randint(0, max(1, config.num_labels), batch["input_ids"].shape)}
    for second in ("next_sentence_label", "sentence_order_label"):
        if second in takes:
            labels[second] = torch.zeros(settings.batch, dtype=torch.long)
    return labels


def _classes(config: Any, settings: Settings) -> Any:
    count = getattr(config, "num_labels", 2) or 2
    if getattr(config, "problem_type", None) == "multi_label_classification":
        return torch.zeros(settings.batch, count)
    if count == 1:
        return torch.zeros(settings.batch)
    return torch.randint(0, count, (settings.batch,))


def _objects(model: Any, settings: Settings, batch: dict[str, Any]) -> list[dict[str, Any]]:
    """A box for each; where the model draws their outlines, a mask too."""
    count = max(1, getattr(model.config, "num_labels", 1) or 1)

    def one() -> dict[str, Any]:
        found = {
            "class_labels": torch.randint(0, count, (OBJECTS,)),
            "boxes": torch.rand(OBJECTS, 4, dtype=settings.dtype),
        }
        if type(model).__name__ == "DetrForSegmentation":
            found["masks"] = torch.zeros(OBJECTS, *batch["pixel_values"].shape[-2:]).bool()
        return found

    return [one() for _ in range(settings.batch)]


def _masks(config: Any, settings: Settings, batch: dict[str, Any]) -> dict[str, Any]:
    size, count = batch["pixel_values"].shape[-2:], max(1, config.num_labels)
    return {
        "mask_labels": [
            torch.zeros(OBJECTS, *size, dtype=settings.dtype) for _ in range(settings.batch)
        ],
        "class_labels": [torch.randint(0, count, (OBJECTS,)) for _ in range(settings.batch)],
    }


def batch_for(model: Any, settings: Settings) -> Batch:
    """Made again for each step, on the device that is current."""
    takes = inspect.signature(model.forward).parameters
    with torch.device("meta"):
        batch = _inputs(model, takes)(model, takes, settings)
        if settings.training:
            batch.update(labels_for(model, takes, settings, batch))
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
    if settings.training and (finds_objects(model) or finds_masks(takes)):
        return [f"each image is taken to show {OBJECTS} objects"]
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
    finds = classifies(model) or finds_objects(model)
    return with_decoder and not finds
