"""The batch of a model that continues series of numbers: what was measured, and what came after it."""

from __future__ import annotations

from typing import Any

import torch

from ..workload import Settings


def series(model: Any, takes: Any, settings: Settings) -> dict[str, Any]:
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
