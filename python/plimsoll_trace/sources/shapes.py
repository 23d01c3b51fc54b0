"""How large the inputs of a model of transformers are, as its config and the settings say."""

from __future__ import annotations

from typing import Any

import torch

from ..workload import Settings

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
