"""Own decoder with rotary embeddings, grouped heads and a cache that is filled in place; weights in safetensors."""

import argparse
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn


@dataclass
class Config:
    vocab: int = 32000
    dim: int = 2048
    layers: int = 16
    heads: int = 16
    kv_heads: int = 4
    hidden: int = 5632
    max_batch: int = 32
    max_len: int = 1536


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return y.type_as(x) * self.weight


def rotary_table(dim, length, theta=10_000.0):
    freqs = 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim)
    angles = torch.outer(torch.arange(length).float(), freqs)
    return torch.polar(torch.ones_like(angles), angles)


def rotate(x, table):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * table[None, :, None]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.head = c, c.dim // c.heads
        self.wq = nn.Linear(c.dim, c.heads * self.head, bias=False)
        self.wk = nn.Linear(c.dim, c.kv_heads * self.head, bias=False)
        self.wv = nn.Linear(c.dim, c.kv_heads * self.head, bias=False)
        self.wo = nn.Linear(c.heads * self.head, c.dim, bias=False)
        cache = torch.zeros(c.max_batch, c.max_len, c.kv_heads, self.head)
        self.register_buffer("cache_k", cache, persistent=False)
        self.register_buffer("cache_v", cache.clone(), persistent=False)

    def forward(self, x, start, table, mask):
        b, t, _ = x.shape
        q = rotate(self.wq(x).view(b, t, self.c.heads, self.head), table)
        k = rotate(self.wk(x).view(b, t, self.c.kv_heads, self.head), table)
        self.cache_k[:b, start : start + t] = k
        self.cache_v[:b, start : start + t] = self.wv(x).view(b, t, self.c.kv_heads, self.head)
        keys, values = self.cache_k[:b, : start + t], self.cache_v[:b, : start + t]
        repeat = self.c.heads // self.c.kv_heads
        keys = keys.repeat_interleave(repeat, dim=2).transpose(1, 2)
        values = values.repeat_interleave(repeat, dim=2).transpose(1, 2)
        scores = q.transpose(1, 2) @ keys.transpose(2, 3) / self.head**0.5
        if mask is not None:
            scores = scores + mask
        out = F.softmax(scores.float(), -1).type_as(q) @ values
        return self.wo(out.transpose(1, 2).reshape(b, t, -1))


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = nn.Embedding(c.vocab, c.dim)
        self.attention = nn.ModuleList(Attention(c) for _ in range(c.layers))
        self.gate = nn.ModuleList(
            nn.Linear(c.dim, 2 * c.hidden, bias=False) for _ in range(c.layers)
        )
        self.down = nn.ModuleList(nn.Linear(c.hidden, c.dim, bias=False) for _ in range(c.layers))
        self.norms = nn.ModuleList(RMSNorm(c.dim) for _ in range(2 * c.layers + 1))
        self.head = nn.Linear(c.dim, c.vocab, bias=False)
        self.register_buffer("table", rotary_table(c.dim // c.heads, c.max_len), persistent=False)

    def forward(self, tokens, start):
        t = tokens.size(1)
        mask = None
        if t > 1:
            mask = torch.full((t, t), float("-inf"), device=tokens.device).triu(1)
            mask = torch.hstack([torch.zeros(t, start, device=tokens.device), mask]).to(
                self.embed.weight.dtype
            )
        x = self.embed(tokens)
        for i, attention in enumerate(self.attention):
            x = x + attention(self.norms[2 * i](x), start, self.table[start : start + t], mask)
            a, b = self.gate[i](self.norms[2 * i + 1](x)).chunk(2, -1)
            x = x + self.down[i](F.silu(a) * b)
        return self.head(self.norms[-1](x[:, -1]))


def pick(logits, temperature, top_p):
    probs = F.softmax(logits.float() / temperature, -1)
    ordered, index = probs.sort(dim=-1, descending=True)
    ordered[ordered.cumsum(-1) - ordered > top_p] = 0
    choice = torch.multinomial(ordered, 1)
    return index.gather(-1, choice)


def main():
    parser = argparse.ArgumentParser()
    for name, value in vars(Config()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--prompt", type=int, default=1024)
    parser.add_argument("--new", type=int, default=200)
    parser.add_argument("--batch", type=int, default=24)
    args = parser.parse_args()
    config = Config(**{name: getattr(args, name) for name in vars(Config())})
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(5)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = Decoder(config).eval()
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, "decoder.safetensors")
    model.load_state_dict(load_file("decoder.safetensors", device=str(device)))
    tokens = torch.randint(0, config.vocab, (args.batch, args.prompt), device=device)
    began = time.time()
    with torch.inference_mode():
        position = 0
        piece = tokens
        for _ in range(args.new):
            logits = model(piece, position)
            position += piece.size(1)
            piece = pick(logits, 0.7, 0.9)
            tokens = torch.cat([tokens, piece], 1)
    print(
        tokens[0, -10:].tolist(),
        f"{args.batch * args.new / (time.time() - began):.0f} tokens a second",
    )


if __name__ == "__main__":
    main()
