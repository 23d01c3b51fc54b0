import argparse
from dataclasses import dataclass, field, fields
from typing import List


@dataclass
class DataConfig:
    rate: int = 16000
    seconds: float = 3.0
    train_clips: int = 640
    valid_clips: int = 70
    snr_low: float = -5.0
    snr_high: float = 15.0
    workers: int = 6


@dataclass
class ModelConfig:
    n_fft: int = 512
    hop: int = 128
    channels: List[int] = field(default_factory=lambda: [32, 64, 128, 256, 256])
    lstm: int = 256


@dataclass
class TrainConfig:
    device: str = "cuda"
    batch: int = 32
    valid_batch: int = 48
    epochs: int = 3
    lr: float = 6e-4
    clip: float = 5.0
    amp: bool = True
    patience: int = 2
    folder: str = "denoiser_run"
    seed: int = 17


@dataclass
class Config:
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


def from_args(argv=None) -> Config:
    """Every field can be set as --section.name value."""
    parser = argparse.ArgumentParser(prog="denoiser")
    cfg = Config()
    for section in fields(cfg):
        part = getattr(cfg, section.name)
        for f in fields(part):
            default = getattr(part, f.name)
            if isinstance(default, list):
                parser.add_argument(
                    f"--{section.name}.{f.name}", type=int, nargs="+", default=default
                )
            elif isinstance(default, bool):
                parser.add_argument(
                    f"--{section.name}.{f.name}",
                    type=lambda s: s.lower() in ("1", "true", "yes"),
                    default=default,
                )
            else:
                parser.add_argument(
                    f"--{section.name}.{f.name}", type=type(default), default=default
                )
    for key, value in vars(parser.parse_args(argv)).items():
        section, name = key.split(".")
        setattr(getattr(cfg, section), name, value)
    return cfg
