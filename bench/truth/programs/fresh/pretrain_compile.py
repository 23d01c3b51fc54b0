"""A compiled language model trained in bf16 with a step of its own, weights tied, evaluation every tenth step."""

import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(
            x
        ) * self.w


class Layer(nn.Module):
    def __init__(self, n, h):
        super().__init__()
        self.h, self.a, self.b = h, Norm(n), Norm(n)
        self.qkv, self.o = nn.Linear(n, 3 * n, bias=False), nn.Linear(n, n, bias=False)
        self.up, self.down = nn.Linear(n, 4 * n, bias=False), nn.Linear(4 * n, n, bias=False)

    def forward(self, x):
        b, t, n = x.shape
        q, k, v = (
            z.view(b, t, self.h, -1).transpose(1, 2) for z in self.qkv(self.a(x)).split(n, -1)
        )
        x = x + self.o(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, n)
        )
        return x + self.down(F.relu(self.up(self.b(x))).square())


class LM(nn.Module):
    def __init__(self, words=32768, n=640, depth=8, h=10):
        super().__init__()
        self.embed, self.layers, self.norm = (
            nn.Embedding(words, n),
            nn.ModuleList(Layer(n, h) for _ in range(depth)),
            Norm(n),
        )
        self.head = nn.Linear(n, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids, labels):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), labels.flatten())


torch.set_float32_matmul_precision("high")
model = LM().cuda()
compiled = torch.compile(model)
groups = [
    {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1},
    {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=True)


def batch():
    ids = torch.randint(0, 32768, (12, 513)).pin_memory().cuda(non_blocking=True)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


for step in range(40):
    if step % 10 == 0:
        model.eval()
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            print(step, torch.stack([compiled(*batch()) for _ in range(4)]).mean().item())
        model.train()
    for group in optimizer.param_groups:
        group["lr"] = 6e-4 * min(1, (step + 1) / 10)
    for micro in range(2):
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(*batch()) / 2
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
