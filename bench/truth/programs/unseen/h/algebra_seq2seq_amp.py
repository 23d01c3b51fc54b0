"""Sequence to sequence for symbolic algebra: hand-written encoder-decoder, fp16 GradScaler, length buckets."""

import math
import random

import torch
import torch.nn.functional as F
from torch import nn

VOCAB = 4000
DIM = 512
HEADS = 8
LAYERS = 6
FF = 2048
LONGEST = 200
PROBLEMS = 3200
VALID = 256
BATCH = 128
EPOCHS = 1
WARMUP = 10
PAD, BOS, EOS = 0, 1, 2
device = torch.device("cuda")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(DIM, DIM), nn.Linear(DIM, 2 * DIM), nn.Linear(DIM, DIM)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, memory, mask):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, HEADS, -1).transpose(1, 2)
        k, v = self.kv(memory).view(b, memory.shape[1], 2, HEADS, -1).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) / math.sqrt(DIM // HEADS)
        score = score.masked_fill(~mask, float("-inf"))
        y = self.drop(score.softmax(dim=-1)) @ v
        return self.o(y.transpose(1, 2).reshape(b, t, DIM))


class Layer(nn.Module):
    def __init__(self, cross):
        super().__init__()
        self.self_attn, self.n1 = Attention(), nn.LayerNorm(DIM)
        self.cross, self.n2 = (Attention(), nn.LayerNorm(DIM)) if cross else (None, None)
        self.ff = nn.Sequential(nn.Linear(DIM, FF), nn.ReLU(), nn.Dropout(0.1), nn.Linear(FF, DIM))
        self.n3, self.drop = nn.LayerNorm(DIM), nn.Dropout(0.1)

    def forward(self, x, mask, memory=None, memory_mask=None):
        h = self.n1(x)
        x = x + self.drop(self.self_attn(h, h, mask))
        if self.cross is not None:
            x = x + self.drop(self.cross(self.n2(x), memory, memory_mask))
        return x + self.drop(self.ff(self.n3(x)))


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM, padding_idx=PAD)
        self.place = nn.Embedding(LONGEST + 2, DIM)
        self.encoder = nn.ModuleList(Layer(False) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Layer(True) for _ in range(LAYERS))
        self.norm_e, self.norm_d = nn.LayerNorm(DIM), nn.LayerNorm(DIM)

    def start(self, ids):
        return self.embed(ids) * math.sqrt(DIM) + self.place(
            torch.arange(ids.shape[1], device=ids.device)
        )

    def encode(self, src):
        mask, x = (src != PAD)[:, None, None], self.start(src)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.norm_e(x), mask

    def decode(self, tgt, memory, memory_mask):
        t = tgt.shape[1]
        mask, x = torch.ones(t, t, dtype=torch.bool, device=tgt.device).tril(), self.start(tgt)
        for layer in self.decoder:
            x = layer(x, mask, memory, memory_mask)
        return F.linear(self.norm_d(x), self.embed.weight)


def problems(n, rng):
    made = []
    for _ in range(n):
        src = [rng.randrange(3, VOCAB) for _ in range(rng.randint(LONGEST // 8, LONGEST - 2))]
        made.append((src, [BOS] + src[::-1][: len(src) * 2 // 3] + [EOS]))
    return made


def pad(rows):
    longest = max(map(len, rows))
    return torch.tensor([r + [PAD] * (longest - len(r)) for r in rows], device=device)


def buckets(data, size, rng):
    order = sorted(data, key=lambda d: len(d[0]) + rng.random() * 20)
    groups = [order[i : i + size] for i in range(0, len(order), size)]
    rng.shuffle(groups)
    for group in groups:
        yield pad([s for s, _ in group]), pad([t for _, t in group])


@torch.no_grad()
def exact_match(model, data, size=64, limit=40):
    model.eval()
    hits = seen = 0
    for i in range(0, len(data), size):
        src, gold = pad([s for s, _ in data[i : i + size]]), pad([t for _, t in data[i : i + size]])
        with torch.autocast(device.type, dtype=torch.float16):
            memory, mask = model.encode(src)
            out = torch.full((len(src), 1), BOS, device=device)
            for _ in range(limit):
                out = torch.cat([out, model.decode(out, memory, mask)[:, -1:].argmax(-1)], dim=1)
                if (out == EOS).any(dim=1).all():
                    break
        n = min(out.shape[1], gold.shape[1])
        hits += (out[:, 1:n] == gold[:, 1:n]).sum().item()
        seen += (gold[:, 1:n] != PAD).sum().item()
    model.train()
    return hits / seen


rng = random.Random(4)
train, valid = problems(PROBLEMS, rng), problems(VALID, rng)
model = Seq2Seq().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
noam = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda s: DIM**-0.5 * min((s + 1) ** -0.5, (s + 1) * WARMUP**-1.5) * 0.1
)
scaler = torch.amp.GradScaler(device.type, init_scale=2.0**14)
for epoch in range(EPOCHS):
    for step, (src, tgt) in enumerate(buckets(train, BATCH, rng)):
        with torch.autocast(device.type, dtype=torch.float16):
            logits = model.decode(tgt[:, :-1], *model.encode(src))
            loss = F.cross_entropy(
                logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.1
            )
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        noam.step()
        if step % 5 == 0:
            print(f"epoch {epoch} step {step} {tuple(src.shape)} loss {loss.item():.3f}")
    print(f"epoch {epoch} token accuracy {exact_match(model, valid):.3f}")
torch.save(model.state_dict(), "algebra.pt")
