"""The GPT of lion_gpt.py in small, compiled, with AdamW."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--eager", action="store_true")
parser.add_argument("--infer", action="store_true")
args = parser.parse_args()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.gate = nn.Linear(width, 3 * width), nn.Linear(width, 3 * width)
        self.down = nn.Linear(3 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        h = self.second(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Gpt(nn.Module):
    def __init__(self, vocab=16384, width=768, depth=8, heads=12):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, ids, targets):
        logits = self.head(self.norm(self.blocks(self.tokens(ids))))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


model = Gpt().to("cuda")
run = model if args.eager else torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), 3e-4, fused=True)
for step in range(8):
    rows = torch.randint(0, 16384, (8, 1025), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        if args.infer:
            with torch.no_grad():
                loss = run(rows[:, :-1], rows[:, 1:])
            continue
        loss = run(rows[:, :-1], rows[:, 1:])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
print(loss.item())
