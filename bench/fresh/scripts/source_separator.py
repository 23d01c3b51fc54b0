"""Takes a song apart on the waveform: strided convolutions down, an LSTM, transposed ones up."""

import torch
from torch import nn


class Separator(nn.Module):
    def __init__(self, sources, channels, width, depth):
        super().__init__()
        self.sources, self.channels = sources, channels
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        inputs = channels
        for level in range(depth):
            outputs = width * 2**level
            self.down.append(
                nn.Sequential(
                    nn.Conv1d(inputs, outputs, 8, stride=4, padding=2),
                    nn.ReLU(),
                    nn.Conv1d(outputs, 2 * outputs, 1),
                    nn.GLU(dim=1),
                )
            )
            last = level == 0
            back = sources * channels if last else inputs
            up = [nn.Conv1d(outputs, 2 * outputs, 3, padding=1), nn.GLU(dim=1)]
            up += [nn.ConvTranspose1d(outputs, back, 8, stride=4, padding=2)]
            self.up.insert(0, nn.Sequential(*up, *([] if last else [nn.ReLU()])))
            inputs = outputs
        self.lstm = nn.LSTM(inputs, inputs, 2, bidirectional=True)
        self.join = nn.Linear(2 * inputs, inputs)

    def forward(self, mix):
        x, seen = mix, []
        for layer in self.down:
            x = layer(x)
            seen.append(x)
        x = self.join(self.lstm(x.permute(2, 0, 1))[0]).permute(1, 2, 0)
        for layer in self.up:
            skip = seen.pop()
            x = layer(x[..., : skip.shape[-1]] + skip[..., : x.shape[-1]])
        return x.view(len(mix), self.sources, self.channels, -1)


def workload(batch=6, samples=44100, sources=4, channels=2, width=64, depth=5):
    step = 4**depth
    length = samples // step * step

    def given():
        parts = torch.randn(batch, sources, channels, length)
        return parts.sum(dim=1), parts

    return {
        "model": Separator(sources, channels, width, depth),
        "batch": given,
        "loss": lambda model, made: nn.functional.l1_loss(model(made[0]), made[1]),
    }
