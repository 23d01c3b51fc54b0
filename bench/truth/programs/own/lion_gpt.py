"""A GPT in plain PyTorch, trained with Lion written by hand, averaged weights and a NaN check."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Lion(Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["average"] = torch.zeros_like(p)
                average = state["average"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = average.mul(first).add_(p.grad, alpha=1 - first).sign_()
                p.add_(update, alpha=-group["lr"])
                average.mul_(second).add_(p.grad, alpha=1 - second)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.second(x))


class Gpt(nn.Module):
    def __init__(self, vocab=16000, width=512, depth=8, heads=8, length=512):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, targets=None):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return logits, None if targets is None else F.cross_entropy(
            logits.flatten(0, 1), targets.flatten()
        )


torch.set_float32_matmul_precision("high")
model = Gpt().cuda()
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
optimizer = Lion(model.parameters(), 1e-4, weight_decay=0.1)
text = torch.randint(0, 16000, (200_000,))
best, patience = math.inf, 0
for step in range(60):
    at = torch.randint(0, len(text) - 513, (16,))
    rows = torch.stack([text[i : i + 513] for i in at]).to("cuda", non_blocking=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        _, loss = model(rows[:, :-1], rows[:, 1:])
    loss.backward()
    if math.isnan(loss.item()) or not torch.isfinite(loss):
        raise RuntimeError("the loss is not finite")
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    average.update_parameters(model)
    if step % 20 == 19:
        average.eval()
        with torch.no_grad():
            values = [average(rows[:, :-1], rows[:, 1:])[1].item() for _ in range(4)]
        mean = sum(values) / len(values)
        patience = 0 if mean < best else patience + 1
        best = min(best, mean)
        if patience > 5:
            break
out = rows[:1, :8]
with torch.no_grad():
    for _ in range(16):
        logits = model(out)[0][:, -1]
        out = torch.cat([out, logits.argmax(-1, keepdim=True)], 1)
print(best, out[0].cpu().tolist())
