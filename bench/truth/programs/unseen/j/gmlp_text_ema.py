# gMLP masked language model, bf16 autocast, EMA weights for evaluation
import copy
import math
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

SEED = 1337
VOCAB = 30000
SEQ = 512
DIM = 512
FFN = 3072
LAYERS = 18
BATCH = 32
STEPS = 30
EVAL_EVERY = 10
EVAL_BATCHES = 2
EMA_DECAY = 0.995
MASK_ID = 3

random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)
device = "cuda" if torch.cuda.is_available() else "cpu"


class SpatialGatingUnit(nn.Module):
    def __init__(self, dim, seq):
        super().__init__()
        self.norm = nn.LayerNorm(dim // 2)
        self.proj = nn.Conv1d(seq, seq, kernel_size=1)
        nn.init.normal_(self.proj.weight, std=1e-4)
        nn.init.ones_(self.proj.bias)

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        v = self.proj(self.norm(v))
        return u * v


class GMLPBlock(nn.Module):
    def __init__(self, dim, ffn, seq):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.inp = nn.Linear(dim, ffn)
        self.sgu = SpatialGatingUnit(ffn, seq)
        self.out = nn.Linear(ffn // 2, dim)

    def forward(self, x):
        h = F.gelu(self.inp(self.norm(x)))
        return x + self.out(self.sgu(h))


class GMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(GMLPBlock(DIM, FFN, SEQ) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@torch.no_grad()
def ema_update(ema, model, decay):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.lerp_(p, 1 - decay)


def get_batch():
    ids = torch.from_numpy(np.random.randint(5, VOCAB, size=(BATCH, SEQ)))
    # every row has exactly 15% of its tokens masked
    order = torch.rand(BATCH, SEQ).argsort(dim=1)
    mask = order < int(0.15 * SEQ)
    labels = torch.where(mask, ids, torch.full_like(ids, -100))
    inputs = torch.where(mask, torch.full_like(ids, MASK_ID), ids)
    return inputs.to(device), labels.to(device)


def loss_of(net, inputs, labels):
    with torch.autocast(device, dtype=torch.bfloat16):
        logits = net(inputs)
        return F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1), ignore_index=-100)


model = GMLP().to(device)
ema_model = copy.deepcopy(model).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=7e-4, betas=(0.9, 0.98), weight_decay=0.01)

for step in range(STEPS):
    lr = 7e-4 * min(1.0, (step + 1) / 5) * 0.5 * (1 + math.cos(math.pi * step / STEPS))
    for group in optimizer.param_groups:
        group["lr"] = lr
    inputs, labels = get_batch()
    loss = loss_of(model, inputs, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema_update(ema_model, model, EMA_DECAY)

    if (step + 1) % EVAL_EVERY == 0:
        with torch.no_grad():
            held_out = [loss_of(ema_model, *get_batch()).item() for _ in range(EVAL_BATCHES)]
        print(
            f"[{step + 1:3d}] train {loss.item():.4f}  ema valid {sum(held_out) / len(held_out):.4f}  lr {lr:.2e}"
        )
