"""Which class of transformers a config stands for: the one it names, else the one usually trained."""

from __future__ import annotations

from typing import Any

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
