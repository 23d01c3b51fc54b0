from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    speakers: int = 60_000
    mels: int = 80
    channels: int = 1024
    embedding: int = 192
    batch: int = 160
    frames: tuple = (200, 300, 400)
    steps: int = 60
    margin: float = 0.2
    scale: float = 30.0
    trial_voices: int = 96
    trial_frames: int = 1200
    lr: float = 1e-3
    workers: int = 4
    seed: int = 55
