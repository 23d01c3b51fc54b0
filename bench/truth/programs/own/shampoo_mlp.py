"""An MLP trained with Shampoo written in Python: roots of two matrices for each weight."""

import torch
from torch import nn


def root(matrix, power):
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values.clamp(min=1e-6).pow(power)) @ vectors.T


class Shampoo(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1, every=4):
        super().__init__(params, {"lr": lr, "every": every})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if p.ndim != 2:
                    p.add_(p.grad, alpha=-group["lr"])
                    continue
                if not state:
                    state["step"] = 0
                    for i, size in enumerate(p.shape):
                        state[f"sum{i}"] = 1e-4 * torch.eye(size, device=p.device)
                        state[f"root{i}"] = torch.eye(size, device=p.device)
                g = p.grad
                state["sum0"] += g @ g.T
                state["sum1"] += g.T @ g
                if state["step"] % group["every"] == 0:
                    for i in range(2):
                        state[f"root{i}"] = root(state[f"sum{i}"], -0.25)
                state["step"] += 1
                p.add_(state["root0"] @ g @ state["root1"], alpha=-group["lr"])


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(
    nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)
).to(device)
optimizer = Shampoo(model.parameters())
x, y = torch.randn(20_000, 1024), torch.randint(0, 10, (20_000,))
for epoch in range(2):
    order = torch.randperm(len(x))
    for at in range(0, len(x), 4096):
        rows = order[at : at + 4096]
        loss = nn.functional.cross_entropy(model(x[rows].to(device)), y[rows].to(device))
        model.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, f"{loss:.4f}")
