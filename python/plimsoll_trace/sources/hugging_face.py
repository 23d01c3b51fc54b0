"""A model from a Hugging Face `config.json`, with the batch its kind of model takes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from plimsoll.failure import MISSING_PACKAGE, Failure

from ..workload import Settings, Workload
from .batches import batch_for, is_text_alone, target_notes, text_config

# A config is a page of text; the largest known (with 21k class names) is under 2 MB.
_LARGEST_CONFIG = 16 << 20


# Which class of transformers a config stands for: the one it names, else the one usually trained.

# The first whose table knows the config decides. Speech, images and translation come before language
# models, because many of their families have a plain decoder as well, which is not what people train.
_ORDER = (
    "AutoModelForSpeechSeq2Seq",
    "AutoModelForCTC",
    "AutoModelForZeroShotImageClassification",
    "AutoModelForImageTextToText",
    "AutoModelForSeq2SeqLM",
    "AutoModelForMaskedLM",
    "AutoModelForCausalLM",
    "AutoModelForImageClassification",
    "AutoModelForAudioClassification",
    "AutoModelForSemanticSegmentation",
    "AutoModelForObjectDetection",
    "AutoModelForUniversalSegmentation",
    "AutoModelForInstanceSegmentation",
    "AutoModelForVideoClassification",
    "AutoModelForDepthEstimation",
    "AutoModelForTimeSeriesPrediction",
    "AutoModelForTokenClassification",
    "AutoModelForSequenceClassification",
    "AutoModelForQuestionAnswering",
    "AutoModelForVisualQuestionAnswering",
    "AutoModelForMaskedImageModeling",
    "AutoModelForPreTraining",
    "AutoModel",
    # Those that have no plain model.
    "AutoModelForImageToImage",
    "AutoModelForKeypointDetection",
    "AutoModelForKeypointMatching",
    "AutoModelForTableRecognition",
    "AutoModelForTextToWaveform",
)
_PLAIN = "Model"


class NoClass(LookupError):
    """No model is made from this kind of config alone."""


def choose(transformers: Any, config: Any, values: dict[str, Any]) -> tuple[Any, list[str]]:
    """The class, and notes on why it was taken where the config does not say."""
    named = [name for name in values.get("architectures") or [] if isinstance(name, str)]
    for name in named:
        found = getattr(transformers, name, None)
        if found is not None and hasattr(found, "_from_config"):
            return found, []
    chosen = _usual(transformers, config)
    missing = f"transformers has no class {named[0][:60]}" if named else ""
    why = missing or "the config names no class"
    return chosen, [f"{why}; {chosen.__name__} was taken"]


def _usual(transformers: Any, config: Any) -> Any:
    for name in _ORDER:
        auto = getattr(transformers, name, None)
        if auto is None or type(config) not in auto._model_mapping:
            continue
        found = auto._model_mapping[type(config)]
        found = found[0] if isinstance(found, (tuple, list)) else found
        if found is not None and hasattr(found, "_from_config"):
            return _with_head(transformers, found)
    raise NoClass(type(config).__name__)


def _with_head(transformers: Any, found: Any) -> Any:
    """Series of numbers have no table for their heads."""
    stem = found.__name__.removesuffix(_PLAIN)
    return getattr(transformers, f"{stem}ForPrediction", found)


def load(path: str, settings: Settings) -> Workload:
    model, notes = build(read_config(path), settings)
    if is_text_alone(model, settings):
        notes = [
            *notes,
            "no image was given, so it was run on text alone; its vision part only lies there",
        ]
    notes = [*notes, *target_notes(model, settings)]
    return Workload(
        model,
        lambda: batch_for(model, settings),
        usual_forward(settings),
        notes=notes,
    )


def read_config(path: str) -> dict[str, Any]:
    if os.path.isdir(path):
        path = os.path.join(path, "config.json")
    try:
        if os.path.getsize(path) > _LARGEST_CONFIG:
            raise Failure(
                "config-too-large",
                f"{path} is larger than a config can be",
                "name the config.json itself",
            )
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except OSError as error:
        raise Failure("config-unreadable", f"{path}: {error.strerror}", "check the path") from error
    except (ValueError, RecursionError) as error:
        raise Failure(
            "config-not-json",
            f"{path} is not JSON: {error}",
            "check that the download is whole",
        ) from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise Failure(
            "config-no-model-type",
            f"{path} has no model_type",
            "use the config.json of the model",
        )
    return config


def build(values: dict[str, Any], settings: Settings) -> tuple[Any, list[str]]:
    transformers = _transformers()
    kind = values["model_type"]
    notes = []
    if isinstance(values.get("quantization_config"), dict):
        values = {name: value for name, value in values.items() if name != "quantization_config"}
        notes.append("the config's own quantization was left out; a preset has to be asked for")
    try:
        config = transformers.AutoConfig.for_model(**values)
    except ImportError as error:
        raise package_missing(error) from error
    except Exception as error:
        raise Failure(
            "config-refused",
            f"transformers {transformers.__version__} does not take this config ({kind}): {first_line(error)}",
            "check the config, or install a transformers that knows this model",
        ) from error
    try:
        wanted, why = choose(transformers, config, values)
        text = text_config(config)
        pads = wanted.__name__.endswith("SequenceClassification") or config.is_encoder_decoder
        if pads and getattr(text, "pad_token_id", None) is None:
            # Without one the class takes a single sample, or no labels; a training program sets one.
            text.pad_token_id = 0
        if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
            # Newer transformers keep it beside the config.
            config.decoder_start_token_id = text.pad_token_id
        with default_dtype(settings.dtype), torch.device("meta"):
            # A config may name a type of its own; what counts here is the precision asked for.
            precision = {dtype_keyword(transformers.__version__): settings.dtype}
            model = wanted._from_config(config, **precision)
    except ImportError as error:
        raise package_missing(error) from error
    except NoClass as error:
        raise Failure(
            "model-incomplete",
            f"transformers {transformers.__version__} has no model that takes {kind} by itself ({error})",
            "if it is a part of a model, name the config of the whole; else name a class in the config's architectures",
        ) from error
    except Exception as error:
        raise Failure(
            "model-refused",
            f"transformers cannot build this model: {first_line(error)}",
            "check the values in the config",
        ) from error
    _bring(model)
    _prepare(model, settings)
    return model, [*notes, *why]


def package_missing(error: ImportError) -> Failure:
    """Some models need more than transformers itself: timm, scipy, natten."""
    return Failure(
        "package-missing",
        f"the model needs a package that this Python lacks: {first_line(error)}",
        "install it with pip, or name another Python",
        status=MISSING_PACKAGE,
    )


def dtype_keyword(version: str) -> str:
    """What `_from_config` calls the type of the weights: renamed in transformers 4.56."""
    numbers = tuple(int(part) for part in version.split(".")[:2])
    return "dtype" if numbers >= (4, 56) else "torch_dtype"


def _transformers() -> Any:
    try:
        import transformers

        return transformers
    except ImportError as error:
        raise Failure(
            "transformers-missing",
            "transformers is not installed for this Python",
            "pip install transformers, or name another Python",
            status=MISSING_PACKAGE,
        ) from error


def _bring(model: Any) -> None:
    """Old constructors such as `torch.Tensor(n)` ignore the current device; the model is then sent there."""
    moved: dict[int, Any] = {}
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is None or parameter.device.type != "cpu":
                continue
            # A parameter that two modules share stays one.
            if id(parameter) not in moved:
                sent = torch.nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
                # The old one is kept until the end, so that no other gets its id.
                moved[id(parameter)] = (parameter, sent)
            setattr(module, name, moved[id(parameter)][1])
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.device.type == "cpu":
                setattr(module, name, buffer.to("meta"))


def _prepare(model: Any, settings: Settings) -> None:
    if not settings.training:
        model.eval()
        return
    model.train()
    for config in {id(c): c for c in (model.config, text_config(model.config))}.values():
        if hasattr(config, "use_cache"):
            config.use_cache = False
    if settings.checkpointing:
        try:
            model.gradient_checkpointing_enable()
        except ValueError as error:
            raise Failure(
                "no-checkpointing",
                f"{type(model).__name__} has no gradient checkpointing",
                "leave --checkpointing out",
            ) from error


@contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def usual_forward(settings: Settings):
    if not settings.training:
        return lambda model, batch: model(**batch)

    def loss(model, batch):
        outputs = model(**batch)
        result = getattr(outputs, "loss", None)
        if not isinstance(result, torch.Tensor):
            raise Failure(
                "no-loss",
                f"{type(model).__name__} returns no loss to train with",
                "name a class with a head in the config's architectures, or write a --script",
            )
        return (result, outputs) if settings.keep == "outputs" else result

    return loss


def first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0][:300] if text else type(error).__name__
