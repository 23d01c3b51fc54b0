"""A model from a Hugging Face `config.json`, with the batch its kind of model takes."""

from __future__ import annotations

import inspect
import json
import os
from typing import Any, Dict

import torch

from ...failure import MISSING_PACKAGE, Failure
from ..workload import Settings, Workload

# A config is a page of text; the largest known (with 21k class names) is under 2 MB.
_LARGEST_CONFIG = 16 << 20


def load(path: str, settings: Settings) -> Workload:
    model = build(read_config(path), settings)
    return Workload(model, lambda: batch_for(model, settings), _forward(settings))


def read_config(path: str) -> Dict[str, Any]:
    if os.path.isdir(path):
        path = os.path.join(path, "config.json")
    try:
        if os.path.getsize(path) > _LARGEST_CONFIG:
            raise Failure(
                "config-too-large", "%s is larger than a config can be" % path, "name the config.json itself"
            )
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except OSError as error:
        raise Failure("config-unreadable", "%s: %s" % (path, error.strerror), "check the path") from error
    except ValueError as error:
        raise Failure(
            "config-not-json", "%s is not JSON: %s" % (path, error), "check that the download is whole"
        ) from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise Failure(
            "config-no-model-type", "%s names no model_type" % path, "use the config.json of the model"
        )
    return config


def build(values: Dict[str, Any], settings: Settings) -> Any:
    try:
        import transformers
    except ImportError as error:
        raise Failure(
            "transformers-missing",
            "transformers is not installed for this Python",
            "pip install transformers, or name another Python",
            status=MISSING_PACKAGE,
        ) from error
    kind = values["model_type"]
    try:
        config = transformers.AutoConfig.for_model(**values)
    except Exception as error:
        raise Failure(
            "config-refused",
            "transformers %s does not take this config (%s): %s"
            % (transformers.__version__, kind, _first_line(error)),
            "check the config, or install a transformers that knows this model",
        ) from error
    architecture = _architecture(transformers, values)
    before = torch.get_default_dtype()
    torch.set_default_dtype(settings.dtype)
    try:
        with torch.device("meta"):
            if architecture is not None:
                model = architecture._from_config(config)
            else:
                model = _auto(transformers, config).from_config(config)
    except Exception as error:
        raise Failure(
            "model-refused",
            "transformers cannot build this model: %s" % _first_line(error),
            "check the values in the config",
        ) from error
    finally:
        torch.set_default_dtype(before)
    if settings.training:
        model.train()
        if hasattr(model.config, "use_cache"):
            model.config.use_cache = False
        if settings.checkpointing:
            model.gradient_checkpointing_enable()
    else:
        model.eval()
    return model


def _architecture(transformers: Any, values: Dict[str, Any]) -> Any:
    for name in values.get("architectures") or []:
        found = getattr(transformers, name, None) if isinstance(name, str) else None
        if found is not None and hasattr(found, "_from_config"):
            return found
    return None


def _auto(transformers: Any, config: Any) -> Any:
    for name in (
        "AutoModelForCausalLM",
        "AutoModelForMaskedLM",
        "AutoModelForSeq2SeqLM",
        "AutoModelForImageClassification",
        "AutoModelForSpeechSeq2Seq",
        "AutoModelForCTC",
    ):
        auto = getattr(transformers, name, None)
        if auto is not None and type(config) in auto._model_mapping:
            return auto
    return transformers.AutoModel


def batch_for(model: Any, settings: Settings) -> Dict[str, Any]:
    config = model.config
    with torch.device("meta"):
        takes = inspect.signature(model.forward).parameters
        if "pixel_values" in takes and "input_ids" in takes and model.main_input_name != "pixel_values":
            return {**_tokens(config, settings), **_images(config, settings, labels=False)}
        if model.main_input_name == "pixel_values":
            batch = _images(config, settings, labels="labels" in takes)
            if "input_ids" in takes:
                batch["input_ids"] = _ids(config, settings)
            return {**batch, "return_loss": True} if "return_loss" in takes and settings.training else batch
        if model.main_input_name == "input_features":
            return _spectra(config, settings)
        if model.main_input_name == "input_values":
            return _waves(config, settings)
        return _tokens(config, settings)


def _images(config: Any, settings: Settings, labels: bool) -> Dict[str, Any]:
    vision = getattr(config, "vision_config", config)
    size = (
        settings.image or (0 if vision is not config else settings.seq) or getattr(vision, "image_size", 224)
    )
    shape = (settings.batch, getattr(vision, "num_channels", 3), size, size)
    batch = {"pixel_values": torch.randn(shape, dtype=settings.dtype)}
    if settings.training and labels:
        batch["labels"] = torch.randint(0, max(1, getattr(config, "num_labels", 2)), (settings.batch,))
    return batch


def _spectra(config: Any, settings: Settings) -> Dict[str, Any]:
    frames = 2 * config.max_source_positions
    return {
        "input_features": torch.randn(settings.batch, config.num_mel_bins, frames, dtype=settings.dtype),
        "labels": torch.randint(0, config.vocab_size, (settings.batch, settings.seq or 1)),
    }


def _waves(config: Any, settings: Settings) -> Dict[str, Any]:
    """Sound as it was sampled; `seq` counts samples, and a label stands for about a thousand."""
    samples = settings.seq or 16000
    batch = {"input_values": torch.randn(settings.batch, samples, dtype=settings.dtype)}
    if settings.training:
        batch["labels"] = torch.randint(0, config.vocab_size, (settings.batch, max(1, samples // 1000)))
    return batch


def _ids(config: Any, settings: Settings) -> Any:
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return torch.randint(0, text.vocab_size, (settings.batch, settings.seq or 1))


def _tokens(config: Any, settings: Settings) -> Dict[str, Any]:
    ids = _ids(config, settings)
    if getattr(config, "is_encoder_decoder", False):
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        labels = torch.randint(0, text.vocab_size, (settings.batch, max(1, settings.seq // 2)))
        return {"input_ids": ids, "labels": labels}
    return {"input_ids": ids, "labels": ids} if settings.training else {"input_ids": ids}


def _forward(settings: Settings):
    if settings.training:
        return lambda model, batch: model(**batch).loss
    return lambda model, batch: model(**batch)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0][:300] if text else type(error).__name__
