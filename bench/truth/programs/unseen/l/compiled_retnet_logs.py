# RetNet language model (parallel retention with per-head decay) on server logs, compiled, trained by Lion.
import math
import os
import time

import torch
import torch.nn.functional as F
from torch import nn

# ---- settings -------------------------------------------------------------
vocab_size = 16384
n_layer, n_head, n_embd = 10, 8, 1024
block_size = 1024
batch_size = 10
max_iters = 36
eval_interval = 18
eval_iters = 4
learning_rate = 2e-4
min_lr = 2e-5
warmup_iters = 5
grad_clip = 1.0
compile_model = True
out_dir = os.path.join("out", "retnet")
seed = 606
device = "cuda" if torch.cuda.is_available() else "cpu"
# ---------------------------------------------------------------------------


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["m"] = torch.zeros_like(p)
                m, g = state["m"], p.grad
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = (m * b1).add_(g, alpha=1 - b1).sign_()
                p.add_(update, alpha=-group["lr"])
                m.mul_(b2).add_(g, alpha=1 - b2)


class Retention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkvg = nn.Linear(n_embd, 4 * n_embd, bias=False)
        self.out = nn.Linear(n_embd, n_embd, bias=False)
        self.norm = nn.GroupNorm(n_head, n_embd)
        gamma = 1 - torch.exp(torch.linspace(math.log(1 / 32), math.log(1 / 512), n_head))
        t = torch.arange(block_size)
        dist = (t[:, None] - t[None, :]).float()
        decay = torch.where(dist >= 0, gamma.view(-1, 1, 1) ** dist.clamp(min=0), torch.zeros(()))
        self.register_buffer("decay", decay / decay.sum(-1, keepdim=True).sqrt(), persistent=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v, g = self.qkvg(x).chunk(4, dim=-1)
        q, k, v = (z.view(B, T, n_head, C // n_head).transpose(1, 2) for z in (q, k, v))
        scores = (q @ k.transpose(-1, -2)) * (C // n_head) ** -0.5
        y = (scores * self.decay[:, :T, :T].to(scores.dtype)) @ v
        y = y.transpose(1, 2).reshape(B * T, C)
        y = self.norm(y).view(B, T, C)
        return self.out(F.silu(g) * y)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.ret = Retention()
        self.up, self.down = nn.Linear(n_embd, 2 * n_embd), nn.Linear(2 * n_embd, n_embd)

    def forward(self, x):
        x = x + self.ret(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class RetNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.blocks = nn.ModuleList(Block() for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, vocab_size, bias=False)
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)

    def forward(self, idx, targets):
        x = self.wte(idx)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, vocab_size).float(), targets.view(-1))


torch.manual_seed(seed)
torch.backends.cuda.matmul.allow_tf32 = True
gen = torch.Generator().manual_seed(seed)
logs = {
    "train": torch.randint(0, vocab_size, (400_000,), generator=gen),
    "val": torch.randint(0, vocab_size, (60_000,), generator=gen),
}


def get_batch(split):
    data = logs[split]
    at = torch.randint(len(data) - block_size - 1, (batch_size,), generator=gen)
    x = torch.stack([data[i : i + block_size] for i in at])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in at])
    return x.to(device, non_blocking=True), y.to(device, non_blocking=True)


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / warmup_iters
    ratio = (it - warmup_iters) / (max_iters - warmup_iters)
    return min_lr + 0.5 * (1 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


raw = RetNet().to(device)
model = torch.compile(raw) if compile_model else raw
optimizer = Lion(raw.parameters(), lr=learning_rate, weight_decay=0.3)
ctx = torch.autocast(device, dtype=torch.bfloat16)


@torch.no_grad()
def estimate():
    model.eval()
    out = {}
    for split in logs:
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            with ctx:
                losses[k] = model(*get_batch(split)).item()
        out[split] = losses.mean().item()
    model.train()
    return out


best = float("inf")
t0 = time.time()
for it in range(max_iters):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(it)
    if it and it % eval_interval == 0:
        losses = estimate()
        print(
            f"iter {it}: train {losses['train']:.3f} val {losses['val']:.3f} ({time.time() - t0:.1f}s)"
        )
        if losses["val"] < best:
            best = losses["val"]
            os.makedirs(out_dir, exist_ok=True)
            torch.save({"model": raw.state_dict(), "iter": it}, os.path.join(out_dir, "ckpt.pt"))
    with ctx:
        loss = model(*get_batch("train"))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(raw.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
print(f"final loss {loss.item():.3f}")
