"""Speech to letters: convolutions over a spectrogram, PyTorch's transformer encoder, CTC."""

import torch
from torch import nn


class Speech(nn.Module):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.enter = nn.Sequential(
            nn.Conv2d(1, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.join = nn.Linear(64 * 20, width)
        layer = nn.TransformerEncoderLayer(width, heads, 3 * width, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 45)

    def forward(self, x):
        x = self.enter(x.unsqueeze(1)).transpose(1, 2).flatten(2)
        return self.head(self.layers(self.join(x))).log_softmax(dim=-1)


def workload(batch=12, seq=1200, width=448, heads=7, layers=7):
    sounds = torch.randn(batch, seq, 80)
    labels = torch.randint(1, 45, (batch, 60))

    def loss(model, given):
        scores = model(given[0]).transpose(0, 1).float()
        steps = torch.full((given[0].shape[0],), scores.shape[0], dtype=torch.long)
        letters = torch.full((given[0].shape[0],), 60, dtype=torch.long)
        return nn.functional.ctc_loss(scores, given[1], steps, letters)

    return {"model": Speech(width, heads, layers), "batch": (sounds, labels), "loss": loss}
