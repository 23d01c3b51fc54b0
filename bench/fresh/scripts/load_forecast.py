"""Hourly loads forecast by an LSTM encoder and an LSTM decoder that is fed its own answers."""

import torch
from torch import nn


class Forecast(nn.Module):
    def __init__(self, features, hidden, layers, ahead):
        super().__init__()
        self.ahead = ahead
        self.reader = nn.LSTM(features, hidden, layers, batch_first=True, dropout=0.2)
        self.writer = nn.LSTM(1, hidden, layers, batch_first=True, dropout=0.2)
        self.out = nn.Linear(hidden, 1)

    def forward(self, history):
        _, state = self.reader(history)
        step, answers = history[:, -1:, :1], []
        for _ in range(self.ahead):
            seen, state = self.writer(step, state)
            step = self.out(seen)
            answers.append(step)
        return torch.cat(answers, dim=1)


def workload(batch=300, history=168, features=12, hidden=512, layers=2, ahead=24):
    past = torch.randn(batch, history, features)
    future = torch.randn(batch, ahead, 1)
    return {
        "model": Forecast(features, hidden, layers, ahead),
        "batch": (past, future),
        "loss": lambda model, given: nn.functional.huber_loss(model(given[0]), given[1]),
    }
