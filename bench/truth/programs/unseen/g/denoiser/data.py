import math

import torch
from torch.utils.data import DataLoader, Dataset


class NoisySpeech(Dataset):
    """Harmonics with a moving pitch stand for a voice, coloured noise for the street."""

    def __init__(self, cfg, count, seed):
        self.cfg, self.count, self.seed = cfg, count, seed
        self.samples = int(cfg.rate * cfg.seconds)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(self.seed + index)
        t = torch.arange(self.samples) / self.cfg.rate
        pitch = 90 + 160 * torch.rand(1, generator=g) + 20 * torch.sin(2 * math.pi * 3 * t)
        phase = 2 * math.pi * torch.cumsum(pitch / self.cfg.rate, 0)
        voice = sum(torch.sin(k * phase) / k for k in range(1, 8))
        gate = (torch.sin(2 * math.pi * 1.3 * t + 6 * torch.rand(1, generator=g)) > -0.3).float()
        clean = 0.2 * voice * gate
        noise = torch.randn(self.samples, generator=g)
        noise = noise + 0.9 * torch.roll(noise, 1)
        low, high = self.cfg.snr_low, self.cfg.snr_high
        snr = low + (high - low) * torch.rand(1, generator=g)
        scale = torch.sqrt(clean.pow(2).mean() / (noise.pow(2).mean() * 10 ** (snr / 10)))
        return clean + scale * noise, clean


def loaders(cfg):
    train = NoisySpeech(cfg.data, cfg.data.train_clips, 0)
    valid = NoisySpeech(cfg.data, cfg.data.valid_clips, 10_000_000)
    common = dict(num_workers=cfg.data.workers, pin_memory=True)
    return (
        DataLoader(train, batch_size=cfg.train.batch, shuffle=True, drop_last=True, **common),
        DataLoader(valid, batch_size=cfg.train.valid_batch, **common),
    )
