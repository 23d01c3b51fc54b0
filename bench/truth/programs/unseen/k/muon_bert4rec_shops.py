"""BERT4Rec for shopping baskets with two optimizers: Muon on the matrices inside the blocks, AdamW on everything else."""

import random

import torch
import torch.nn.functional as F
from torch import nn

ITEMS = 60_000
LENGTH = 200
WIDTH = 512
BLOCKS = 8
HEADS = 8
BATCH = 128
STEPS = 40
MASK_ID = ITEMS + 1
PAD_ID = 0
MASK_RATE = 0.2


def orthogonalize(g, iterations=5):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    flip = x.size(0) > x.size(1)
    if flip:
        x = x.T
    x = x / (x.norm() + 1e-7)
    for _ in range(iterations):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return (x.T if flip else x).to(g.dtype)


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95, nesterov=True):
        super().__init__(params, dict(lr=lr, momentum=momentum, nesterov=nesterov))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                buf = self.state[p].setdefault("buf", torch.zeros_like(p))
                buf.lerp_(p.grad, 1 - group["momentum"])
                g = p.grad.lerp(buf, group["momentum"]) if group["nesterov"] else buf
                scale = max(1.0, p.size(0) / p.size(1)) ** 0.5
                p.add_(orthogonalize(g), alpha=-group["lr"] * scale)


class Bert4Rec(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS + 2, WIDTH, padding_idx=PAD_ID)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH,
            HEADS,
            4 * WIDTH,
            dropout=0.1,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(layer, BLOCKS, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.bias = nn.Parameter(torch.zeros(ITEMS + 2))
        nn.init.normal_(self.items.weight, std=0.02)

    def forward(self, baskets):
        x = self.items(baskets) + self.places
        return self.norm(self.encoder(x, src_key_padding_mask=baskets == PAD_ID))

    def score(self, hidden):
        return F.linear(hidden, self.items.weight, self.bias)


def make_baskets(n):
    baskets = torch.randint(1, ITEMS + 1, (n, LENGTH))
    used = torch.randint(LENGTH // 4, LENGTH + 1, (n, 1))
    return baskets * (torch.arange(LENGTH)[None] >= LENGTH - used)


def main():
    random.seed(3)
    torch.manual_seed(3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Bert4Rec().to(device)
    matrices = [p for n, p in model.encoder.named_parameters() if p.dim() == 2]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    optimizers = [
        Muon(matrices, lr=0.01),
        torch.optim.AdamW(others, lr=1e-3, weight_decay=0.01),
    ]

    baskets = make_baskets(4096)
    for step in range(1, STEPS + 1):
        rows = baskets[torch.randint(0, len(baskets), (BATCH,))].to(device)
        hide = (torch.rand(rows.shape, device=device) < MASK_RATE) & (rows != PAD_ID)
        seen = rows.masked_fill(hide, MASK_ID)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            hidden = model(seen)
            logits = model.score(hidden[hide])
        loss = F.cross_entropy(logits.float(), rows[hide])
        for o in optimizers:
            o.zero_grad(set_to_none=True)
        loss.backward()
        for o in optimizers:
            o.step()
        if step % 10 == 0:
            print(f"step {step} hidden items {int(hide.sum())} loss {loss.item():.4f}")

    # hit rate of the last item, over a bigger batch than in training
    model.eval()
    with torch.inference_mode():
        rows = make_baskets(512).to(device)
        answer = rows[:, -1].clone()
        rows[:, -1] = MASK_ID
        top = model.score(model(rows)[:, -1]).topk(10, dim=-1).indices
        print("HR@10", (top == answer[:, None]).any(1).float().mean().item())


if __name__ == "__main__":
    main()
