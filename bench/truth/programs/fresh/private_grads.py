"""Differentially private training: the gradient of each sample by vmap, clipped, with noise."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

device = "cuda"
model = nn.Sequential(
    nn.Conv2d(3, 64, 3, 1, 1),
    nn.GroupNorm(8, 64),
    nn.ReLU(),
    nn.Conv2d(64, 128, 3, 2, 1),
    nn.GroupNorm(8, 128),
    nn.ReLU(),
    nn.Conv2d(128, 256, 3, 2, 1),
    nn.GroupNorm(8, 256),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(256, 10),
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def loss_of(params, x, y):
    return nn.functional.cross_entropy(functional_call(model, params, (x[None],)), y[None])


each = vmap(grad(loss_of), in_dims=(None, 0, 0), randomness="different")
for step in range(12):
    x, y = torch.randn(256, 3, 32, 32, device=device), torch.randint(0, 10, (256,), device=device)
    params = {k: v.detach() for k, v in model.named_parameters()}
    grads = each(params, x, y)
    norms = torch.sqrt(sum(g.flatten(1).pow(2).sum(1) for g in grads.values()))
    scale = (1.0 / (norms + 1e-6)).clamp(max=1)
    for name, p in model.named_parameters():
        summed = torch.einsum("b...,b->...", grads[name], scale)
        p.grad = (summed + torch.randn_like(summed)) / len(x)
    optimizer.step()
    optimizer.zero_grad()
    print(step, norms.mean().item())
