"""Small models of sixteen kinds: recorded on a card by record_forecast.py, traced without one for generated series.

`workload` is for `plimsoll estimate --script`, with `--arg name=vit --arg batch=8 --arg length=256`.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Decoder(nn.Module):
    def __init__(self, width=384, layers=6, words=8000):
        super().__init__()
        self.words = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 6, 4 * width, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.layers(self.words(tokens)))


class Attention(nn.Module):
    """Scores are kept as a matrix: memory grows with the square of the length."""

    def __init__(self, width=256, layers=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for take, give in zip(self.layers, self.out):
            q, k, v = take(x).chunk(3, -1)
            x = x + give((q @ k.transpose(1, 2) / 16).softmax(-1) @ v)
        return x


class Convolutions(nn.Module):
    def __init__(self, width=48, blocks=6):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 2, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, 1, 1),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, width, 3, 1, 1),
                nn.BatchNorm2d(width),
            )
            for _ in range(blocks)
        )
        self.head = nn.Linear(width, 100)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = F.relu(x + block(x))
        return self.head(x.mean((2, 3)))


class UNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in zip([3, *sizes[:-1]], sizes))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(a, b, 4, 2, 1) for a, b in zip(sizes[::-1], [*sizes[-2::-1], 3])
        )

    def forward(self, x):
        seen = []
        for layer in self.down:
            x = F.silu(layer(x))
            seen.append(x)
        for layer, other in zip(self.up, seen[::-1]):
            x = layer(F.silu(x + other))
        return x


class Recurrent(nn.Module):
    def __init__(self, kind, width=512, layers=2):
        super().__init__()
        self.cells = kind(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, width)

    def forward(self, x):
        return self.head(self.cells(x)[0])


class Experts(nn.Module):
    """Each of eight experts sees every row."""

    def __init__(self, width=384):
        super().__init__()
        self.gate = nn.Linear(width, 8)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(8)
        )

    def forward(self, x):
        parts = torch.stack([expert(x) for expert in self.experts], -1)
        return (parts * self.gate(x).softmax(-1).unsqueeze(-2)).sum(-1)


class Patches(nn.Module):
    def __init__(self, width=256, layers=5):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 8, 8)
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 100)

    def forward(self, x):
        return self.head(self.layers(self.patch(x).flatten(2).transpose(1, 2)).mean(1))


class Mixer(nn.Module):
    def __init__(self, tokens, width=256, layers=6):
        super().__init__()
        self.across = nn.ModuleList(nn.Linear(tokens, tokens) for _ in range(layers))
        self.along = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for across, along in zip(self.across, self.along):
            x = x + F.gelu(across(x.transpose(1, 2))).transpose(1, 2)
            x = x + F.gelu(along(x))
        return x


class Graph(nn.Module):
    def __init__(self, width=192, layers=5):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, pair):
        x, near = pair
        for layer in self.layers:
            x = F.relu(near @ layer(x)) + x
        return x


def chain(*layers):
    return nn.Sequential(*layers)


def waves(width=64, layers=8):
    return chain(
        nn.Conv1d(8, width, 3, 1, 1),
        *[
            chain(nn.Conv1d(width, width, 3, 1, 2**k % 27 + 1, 2**k % 27 + 1), nn.GELU())
            for k in range(layers)
        ],
        nn.Conv1d(width, 8, 1),
    )


def autoencoder(width=32):
    return chain(
        nn.Conv2d(3, width, 4, 2, 1),
        nn.GELU(),
        nn.Conv2d(width, 2 * width, 4, 2, 1),
        nn.GELU(),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
        nn.GELU(),
        nn.ConvTranspose2d(width, 3, 4, 2, 1),
    )


def generator(width=64):
    return chain(
        nn.Unflatten(1, (128, 1, 1)),
        nn.ConvTranspose2d(128, 4 * width, 8, 1, 0),
        nn.ReLU(),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(width, 3, 4, 2, 1),
        nn.Tanh(),
    )


def rows(width=1024, layers=8):
    return chain(*[chain(nn.Linear(width, width), nn.GELU()) for _ in range(layers)])


def tokens(batch, length, device):
    return torch.randint(0, 8000, (batch, length), device=device)


def numbers(*shape):
    return lambda batch, length, device: torch.randn(
        *[{"b": batch, "n": length}.get(one, one) for one in shape], device=device
    )


def pair(batch, length, device):
    return torch.randn(batch, length, 192, device=device), torch.rand(
        batch, length, length, device=device
    )


def image(batch, length, device):
    side = max(32, int(length**0.5 * 8) // 16 * 16)
    return torch.randn(batch, 3, side, side, device=device)


# The model, its input, and a batch and a length that take some hundred MiB.
PROGRAMS = {
    "decoder": (Decoder, tokens, 8, 192),
    "attention": (Attention, numbers("b", "n", 256), 8, 512),
    "convolutions": (Convolutions, image, 16, 256),
    "unet": (UNet, image, 24, 512),
    "lstm": (lambda: Recurrent(nn.LSTM), numbers("b", "n", 512), 64, 128),
    "gru": (lambda: Recurrent(nn.GRU, 384, 3), numbers("b", "n", 384), 64, 128),
    "experts": (Experts, numbers("b", "n", 384), 16, 128),
    "patches": (Patches, image, 24, 256),
    "mixer": (lambda: Mixer(196), numbers("b", 196, 256), 64, 196),
    "graph": (Graph, pair, 4, 768),
    "waves": (waves, numbers("b", 8, "n"), 16, 4096),
    "autoencoder": (autoencoder, image, 32, 512),
    "generator": (generator, numbers("b", 128), 256, 1),
    "rows": (rows, numbers("b", "n", 1024), 16, 256),
    "wide": (lambda: rows(3072, 3), numbers("b", "n", 3072), 8, 256),
    "deep": (lambda: rows(256, 40), numbers("b", "n", 256), 16, 256),
}


def loss_of(model, batch):
    return model(batch).float().square().mean()


def workload(name="decoder", batch=0, length=0):
    make, data, usual_batch, usual_length = PROGRAMS[name]
    given = data(batch or usual_batch, length or usual_length, torch.get_default_device())
    return {"model": make(), "batch": given, "loss": loss_of}
