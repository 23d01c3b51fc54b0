"""A compiled decoder with rotary positions and grouped queries; compiled again for evaluation without gradients."""

import time

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, STEPS = 16, 1024, 40
VOCAB, WIDTH, LAYERS, HEADS, GROUPS = 32768, 1024, 8, 16, 4
device = "cuda"


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.weight).type_as(x)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).type_as(x)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = WIDTH // HEADS
        self.norm1, self.norm2 = RMSNorm(WIDTH), RMSNorm(WIDTH)
        self.q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.kv = nn.Linear(WIDTH, 2 * GROUPS * self.size, bias=False)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        hidden = WIDTH * 8 // 3 // 64 * 64
        self.gate, self.up = (
            nn.Linear(WIDTH, hidden, bias=False),
            nn.Linear(WIDTH, hidden, bias=False),
        )
        self.down = nn.Linear(hidden, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        y = self.norm1(x)
        q = self.q(y).view(b, t, HEADS, self.size).transpose(1, 2)
        k, v = self.kv(y).view(b, t, 2, GROUPS, self.size).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (z.repeat_interleave(HEADS // GROUPS, 1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v.type_as(q), is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, WIDTH))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        angle = torch.outer(
            torch.arange(LENGTH), 10000 ** -(torch.arange(0, WIDTH // HEADS, 2) / (WIDTH // HEADS))
        )
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, ids, targets):
        t = ids.shape[1]
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, self.cos[:t], self.sin[:t])
        logits = 30 * torch.tanh(self.head(self.norm(x)).float() / 30)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batches(seed, count):
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        ids = (torch.rand(BATCH, LENGTH + 1, generator=g) ** 5 * VOCAB).long().to(device)
        yield ids[:, :-1], ids[:, 1:]


def main():
    torch.manual_seed(50)
    torch.set_float32_matmul_precision("high")
    raw = Decoder().to(device)
    model = torch.compile(raw)
    optimizer = torch.optim.AdamW(raw.parameters(), lr=4e-4, betas=(0.9, 0.95), fused=True)
    start = time.time()
    for step, (ids, targets) in enumerate(batches(0, STEPS)):
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(ids, targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(raw.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step == 0:
            torch.cuda.synchronize()
            print(f"compiled in {time.time() - start:.1f} s")
        if step % 10 == 0:
            print(f"{step}: {loss.item():.3f}, norm {norm.item():.2f}")
    raw.eval()
    with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
        total = sum(model(*pair).item() for pair in batches(1, 6)) / 6
    print(f"validation {total:.3f}, {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")
    torch.save(raw.state_dict(), "decoder.pt")


if __name__ == "__main__":
    main()
