"""Questions and answers through two encoders of nn.TransformerEncoder, drawn together in the batch."""

import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, words, seq, width, heads, layers):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.places = nn.Parameter(0.02 * torch.randn(seq, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.1, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.query = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.pool = nn.MultiheadAttention(width, heads, batch_first=True)
        self.project = nn.Linear(width, 256, bias=False)

    def forward(self, ids):
        x = self.layers(self.embed(ids) + self.places)
        pooled, _ = self.pool(self.query.expand(x.shape[0], -1, -1), x, x)
        return nn.functional.normalize(self.project(pooled[:, 0]), dim=-1)


class Towers(nn.Module):
    def __init__(self, words, seq, width):
        super().__init__()
        self.question = Tower(words, seq // 2, width, width // 64, 4)
        self.answer = Tower(words, seq, width, width // 64, 7)
        self.heat = nn.Parameter(torch.tensor(2.0))

    def forward(self, question, answer):
        return self.heat.exp() * self.question(question) @ self.answer(answer).t()


def workload(batch=130, seq=96, words=32000, width=512):
    questions = torch.randint(0, words, (batch, seq // 2))
    answers = torch.randint(0, words, (batch, seq))

    def loss(model, given):
        scores = model(*given)
        right = torch.arange(scores.shape[0], device=scores.device)
        forth = nn.functional.cross_entropy(scores, right)
        return (forth + nn.functional.cross_entropy(scores.t(), right)) / 2

    return {"model": Towers(words, seq, width), "batch": (questions, answers), "loss": loss}
