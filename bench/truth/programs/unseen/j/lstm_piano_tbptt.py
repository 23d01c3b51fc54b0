# Piano roll model: stacked LSTM, truncated backpropagation through time, hidden state carried over
import random

import numpy as np
import torch
from torch import nn

random.seed(3)
np.random.seed(3)
torch.manual_seed(3)

KEYS = 88
HIDDEN = 1536
LAYERS = 3
BATCH = 128
CHUNK = 200
CHUNKS = 8  # chunks in one piece
PIECES = 3
DROPOUT = 0.2
LR = 1e-3

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class PianoRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(KEYS, 512), nn.Tanh())
        self.rnn = nn.LSTM(512, HIDDEN, num_layers=LAYERS, dropout=DROPOUT, batch_first=True)
        self.drop = nn.Dropout(DROPOUT)
        self.out = nn.Sequential(nn.Linear(HIDDEN, 512), nn.ReLU(), nn.Linear(512, KEYS))

    def forward(self, roll, state=None):
        h, state = self.rnn(self.inp(roll), state)
        return self.out(self.drop(h)), state

    def start(self, batch):
        shape = (LAYERS, batch, HIDDEN)
        return torch.zeros(shape, device=device), torch.zeros(shape, device=device)


def piece():
    """a random walk of held notes: (batch, time, keys) of 0/1"""
    length = CHUNK * CHUNKS + 1
    flips = np.random.rand(BATCH, length, KEYS) < 0.02
    roll = (np.cumsum(flips, axis=1) % 2).astype(np.uint8)
    return torch.from_numpy(roll)


def detach(state):
    return tuple(s.detach() for s in state)


model = PianoRNN().to(device)
optimizer = torch.optim.RMSprop(model.parameters(), lr=LR, alpha=0.95)
criterion = nn.BCEWithLogitsLoss()
print(model)

for n in range(PIECES):
    roll = piece()
    state = model.start(BATCH)
    model.train()
    losses = []
    for c in range(CHUNKS):
        x = roll[:, c * CHUNK : (c + 1) * CHUNK].float().to(device)
        y = roll[:, c * CHUNK + 1 : (c + 1) * CHUNK + 1].float().to(device)
        state = detach(state)
        logits, state = model(x, state)
        loss = criterion(logits, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    print(f"piece {n} loss {np.mean(losses):.4f} last {losses[-1]:.4f}")

    # let it play for a bit
    model.eval()
    with torch.no_grad():
        note = torch.zeros(16, 1, KEYS, device=device)
        state = model.start(16)
        played = []
        for _ in range(100):
            logits, state = model(note, state)
            note = torch.bernoulli(torch.sigmoid(logits))
            played.append(note)
        density = torch.cat(played, dim=1).mean().item()
    print(f"   notes per key and step: {density:.3f}")
