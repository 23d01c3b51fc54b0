"""Pretrain a 1.4 billion parameter GPT on one card: fp32 weights, bf16 autocast, checkpointed blocks, fused AdamW."""

import argparse
import dataclasses
import json
import math
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


@dataclasses.dataclass
class GPTConfig:
    vocab: int = 50304
    context: int = 1024
    dim: int = 2048
    heads: int = 16
    layers: int = 24
    recompute: bool = True


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.heads
        self.norm_a, self.norm_m = nn.RMSNorm(c.dim), nn.RMSNorm(c.dim)
        self.qkv, self.out = (
            nn.Linear(c.dim, 3 * c.dim, bias=False),
            nn.Linear(c.dim, c.dim, bias=False),
        )
        self.fc, self.proj = (
            nn.Linear(c.dim, 4 * c.dim, bias=False),
            nn.Linear(4 * c.dim, c.dim, bias=False),
        )

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            z.view(b, t, self.heads, -1).transpose(1, 2)
            for z in self.qkv(self.norm_a(x)).split(d, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.proj(F.relu(self.fc(self.norm_m(x))).square())


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.tokens, self.places = nn.Embedding(c.vocab, c.dim), nn.Embedding(c.context, c.dim)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = nn.RMSNorm(c.dim)
        self.head = nn.Linear(c.dim, c.vocab, bias=False)

    def forward(self, x, y):
        h = self.tokens(x) + self.places(torch.arange(x.size(1), device=x.device))
        for block in self.blocks:
            h = (
                checkpoint(block, h, use_reentrant=False)
                if self.c.recompute and self.training
                else block(h)
            )
        logits = self.head(self.norm(h))
        return F.cross_entropy(logits.flatten(0, 1).float(), y.flatten())


def lr_lambda(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


def main():
    parser = argparse.ArgumentParser()
    for f in dataclasses.fields(GPTConfig):
        if f.type is int:
            parser.add_argument(f"--{f.name}", type=int, default=f.default)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--val-every", type=int, default=4)
    parser.add_argument("--no-recompute", dest="recompute", action="store_false")
    args = vars(parser.parse_args())
    config = GPTConfig(**{f.name: args[f.name] for f in dataclasses.fields(GPTConfig)})
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    with device:
        model = GPT(config)
    count = sum(p.numel() for p in model.parameters())
    print(json.dumps(dataclasses.asdict(config)), f"{count / 1e9:.2f} B parameters")
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        lr=2e-4,
        betas=(0.9, 0.95),
        fused=device.type == "cuda",
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: lr_lambda(s, 2, args["steps"])
    )

    def batch():
        tokens = torch.randint(0, config.vocab, (args["batch"], config.context + 1)).to(device)
        return tokens[:, :-1], tokens[:, 1:]

    for step in range(args["steps"]):
        start = time.time()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = model(*batch())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        print(f"step {step}: loss {loss.item():.4f} norm {norm:.2f} {time.time() - start:.2f} s")
        if (step + 1) % args["val_every"] == 0:
            model.eval()
            with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
                print(f"validation {model(*batch()).item():.4f}")
            model.train()


if __name__ == "__main__":
    main()
