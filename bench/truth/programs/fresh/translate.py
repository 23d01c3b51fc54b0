"""Translation with nn.Transformer: sentences padded to the longest of a batch, then greedy decoding."""

import math
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

PAD, BEGIN, END, WORDS = 0, 1, 2, 16000
device = torch.device("cuda")


class Position(nn.Module):
    def __init__(self, width, most=512):
        super().__init__()
        at = torch.arange(most)[:, None] * torch.exp(
            torch.arange(0, width, 2) * (-math.log(10000.0) / width)
        )
        table = torch.zeros(most, width)
        table[:, 0::2], table[:, 1::2] = at.sin(), at.cos()
        self.register_buffer("table", table)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(x + self.table[: x.shape[1]])


class Translator(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, width, PAD), nn.Embedding(WORDS, width, PAD)
        self.position = Position(width)
        self.core = nn.Transformer(width, 8, 4, 4, 2048, 0.1, batch_first=True)
        self.out = nn.Linear(width, WORDS)

    def encode(self, s):
        return self.core.encoder(self.position(self.source(s)), src_key_padding_mask=s == PAD)

    def decode(self, t, memory, mask):
        causal = nn.Transformer.generate_square_subsequent_mask(t.shape[1], device=t.device)
        x = self.core.decoder(
            self.position(self.target(t)), memory, tgt_mask=causal, memory_key_padding_mask=mask
        )
        return self.out(x)

    def forward(self, s, t):
        return self.decode(t, self.encode(s), s == PAD)


def sentence(g):
    return torch.tensor(
        [BEGIN] + [g.randint(3, WORDS - 1) for _ in range(g.randint(8, 60))] + [END]
    )


g = random.Random(0)
pairs = [(sentence(g), sentence(g)) for _ in range(640)]


def collate(rows):
    return tuple(pad_sequence(side, batch_first=True, padding_value=PAD) for side in zip(*rows))


loader = DataLoader(pairs, batch_size=64, shuffle=True, collate_fn=collate)
model = Translator().to(device)
for p in model.parameters():
    if p.dim() > 1:
        nn.init.xavier_uniform_(p)
criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda i: 512**-0.5 * min((i + 1) ** -0.5, (i + 1) * 400**-1.5)
)
for epoch in range(2):
    model.train()
    total = 0
    for s, t in loader:
        s, t = s.to(device), t.to(device)
        logits = model(s, t[:, :-1])
        loss = criterion(logits.reshape(-1, WORDS), t[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        schedule.step()
        total += loss.item()
    print(epoch, total / len(loader))
model.eval()
with torch.no_grad():
    s = collate(pairs[:32])[0].to(device)
    memory, made = model.encode(s), torch.full((32, 1), BEGIN, device=device)
    for _ in range(40):
        following = model.decode(made, memory, s == PAD)[:, -1].argmax(-1, keepdim=True)
        made = torch.cat([made, following], 1)
        if (made == END).any(1).all():
            break
