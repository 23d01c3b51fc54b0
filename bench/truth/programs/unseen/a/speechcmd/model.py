"""The network and its settings."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class ModelConfig:
    n_fft: int = 512
    hop: int = 160
    channels: int = 256
    blocks: int = 8
    kernel: int = 15
    classes: int = 35
    dropout: float = 0.1


class ConvModule(nn.Module):
    """The convolution part of a Conformer."""

    def __init__(self, channels, kernel, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.inner = nn.Sequential(
            nn.Conv1d(channels, channels * 2, 1),
            nn.GLU(dim=1),
            nn.Conv1d(channels, channels, kernel, padding=kernel // 2, groups=channels),
            nn.BatchNorm1d(channels),
            nn.SiLU(),
            nn.Conv1d(channels, channels, 1),
            nn.Dropout(dropout),
        )

    def forward(self, x):
        return x + self.inner(self.norm(x).transpose(1, 2)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        c = config.channels
        self.attention_norm = nn.LayerNorm(c)
        self.attention = nn.MultiheadAttention(c, c // 64, config.dropout, batch_first=True)
        self.conv = ConvModule(c, config.kernel, config.dropout)
        self.feed = nn.Sequential(
            nn.LayerNorm(c),
            nn.Linear(c, c * 4),
            nn.SiLU(),
            nn.Dropout(config.dropout),
            nn.Linear(c * 4, c),
        )

    def forward(self, x):
        h = self.attention_norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        x = self.conv(x)
        return x + self.feed(x)


class KeywordSpotter(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.register_buffer("window", torch.hann_window(config.n_fft))
        self.enter = nn.Linear(config.n_fft // 2 + 1, config.channels)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        self.out = nn.Linear(config.channels, config.classes)

    def spectrogram(self, waves):
        spec = torch.stft(
            waves, self.config.n_fft, self.config.hop, window=self.window, return_complex=True
        )
        return torch.log1p(spec.abs()).transpose(1, 2)

    def forward(self, waves):
        x = self.enter(self.spectrogram(waves))
        for block in self.blocks:
            x = block(x)
        return self.out(x.mean(1))
