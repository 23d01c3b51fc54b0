"""A BERT-like language model in plain torch with LAMB written by hand, accumulation and words hidden on the GPU."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                m, v = state["exp_avg"], state["exp_avg_sq"]
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                m_hat = m / (1 - beta1 ** state["step"])
                v_hat = v / (1 - beta2 ** state["step"])
                update = m_hat / (v_hat.sqrt() + group["eps"])
                if group["decay"]:
                    update = update + group["decay"] * p
                weight_norm = p.norm().clamp(0, 10)
                update_norm = update.norm()
                trust = 1.0
                if weight_norm != 0 and update_norm != 0:
                    trust = (weight_norm / update_norm).item()
                p.add_(update, alpha=-group["lr"] * trust)


class Encoder(nn.Module):
    def __init__(self, vocab, width, layers, heads, length):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(vocab))

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        h = self.layers(self.norm(self.words(ids) + self.positions(places)))
        return F.linear(self.transform(h), self.words.weight, self.bias)


def hide(ids, vocab, share=0.15):
    labels = ids.clone()
    chosen = torch.rand(ids.shape, device=ids.device) < share
    labels[~chosen] = -100
    dice = torch.rand(ids.shape, device=ids.device)
    ids = torch.where(chosen & (dice < 0.8), torch.full_like(ids, 3), ids)
    other = torch.randint_like(ids, 4, vocab)
    return torch.where(chosen & (dice > 0.9), other, ids), labels


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=30522)
    p.add_argument("--width", type=int, default=768)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--length", type=int, default=128)
    p.add_argument("--micro-batch", type=int, default=64)
    p.add_argument("--accumulate", type=int, default=4)
    p.add_argument("--updates", type=int, default=10)
    p.add_argument("--lr", type=float, default=2e-3)
    a = p.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Encoder(a.vocab, a.width, a.layers, max(1, a.width // 64), a.length).to(device)
    decay = [w for w in model.parameters() if w.ndim > 1]
    rest = [w for w in model.parameters() if w.ndim <= 1]
    optimizer = Lamb([{"params": decay}, {"params": rest, "decay": 0.0}], lr=a.lr)
    corpus = torch.randint(4, a.vocab, (4096, a.length))
    for update in range(a.updates):
        for group in optimizer.param_groups:
            group["lr"] = a.lr * min(1.0, (update + 1) / 5)
        total = 0.0
        for _ in range(a.accumulate):
            rows = torch.randint(0, len(corpus), (a.micro_batch,))
            ids, labels = hide(corpus[rows].to(device), a.vocab)
            logits = model(ids)
            loss = F.cross_entropy(logits.view(-1, a.vocab), labels.view(-1)) / a.accumulate
            loss.backward()
            total += loss.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"update {update}: loss {total:.4f}, gradient {norm.item():.3f}")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "lamb.pt")


if __name__ == "__main__":
    main()
