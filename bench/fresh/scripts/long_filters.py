"""A language model without attention: filters as long as the text, applied through FFTs."""

import torch
from torch import nn


class Filter(nn.Module):
    def __init__(self, width, longest, hidden=64, waves=16):
        super().__init__()
        time = torch.linspace(0, 1, longest)[:, None]
        angle = time * torch.arange(1, waves + 1) * torch.pi
        self.register_buffer("places", torch.cat([time, angle.sin(), angle.cos()], dim=1))
        self.register_buffer("decay", torch.exp(-time * torch.linspace(1, 20, width)))
        self.net = nn.Sequential(
            nn.Linear(2 * waves + 1, hidden), nn.SiLU(), nn.Linear(hidden, width)
        )

    def forward(self, length):
        return (self.net(self.places[:length]) * self.decay[:length]).t()


class Layer(nn.Module):
    def __init__(self, width, longest):
        super().__init__()
        self.norm, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inner = nn.Linear(width, 3 * width)
        self.near = nn.Conv1d(3 * width, 3 * width, 3, padding=2, groups=3 * width)
        self.filter = Filter(width, longest)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        length = x.shape[1]
        mixed = self.near(self.inner(self.norm(x)).transpose(1, 2))[..., :length]
        gate, other, value = mixed.chunk(3, dim=1)
        value = value * other
        far = torch.fft.rfft(value, n=2 * length) * torch.fft.rfft(
            self.filter(length), n=2 * length
        )
        value = torch.fft.irfft(far, n=2 * length)[..., :length] * gate
        x = x + self.out(value.transpose(1, 2))
        return x + self.mlp(self.after(x))


class Language(nn.Module):
    def __init__(self, words, width, layers, longest):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.Sequential(*(Layer(width, longest) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        return self.norm(self.layers(self.words(ids))) @ self.words.weight.t()


def workload(batch=8, seq=1024, words=16000, width=512, layers=6):
    def loss(model, ids):
        scores = model(ids[:, :-1])
        return nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten())

    return {
        "model": Language(words, width, layers, seq),
        "batch": lambda: torch.randint(0, words, (batch, seq + 1)),
        "loss": loss,
    }
