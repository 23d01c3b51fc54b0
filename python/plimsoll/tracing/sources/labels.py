"""The labels that the head of a model of transformers learns from."""

from __future__ import annotations

from typing import Any

import torch

from ..workload import Settings
from .shapes import tokens, transcript

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
