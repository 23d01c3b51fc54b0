"""Soft actor-critic: a replay buffer on the GPU, two critics with averaged copies, three optimizers."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda")
states, actions, size, batch = 376, 17, 100_000, 1024


def mlp(i, o, width=1024):
    return nn.Sequential(
        nn.Linear(i, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, o)
    )


actor = mlp(states, 2 * actions).to(device)
critics = nn.ModuleList([mlp(states + actions, 1) for _ in range(2)]).to(device)
targets = copy.deepcopy(critics).requires_grad_(False)
log_alpha = torch.zeros(1, requires_grad=True, device=device)
of_actor = torch.optim.Adam(actor.parameters(), 3e-4)
of_critics = torch.optim.Adam(critics.parameters(), 3e-4)
of_alpha = torch.optim.Adam([log_alpha], 3e-4)
buffer = {
    "state": torch.zeros(size, states, device=device),
    "next": torch.zeros(size, states, device=device),
    "action": torch.zeros(size, actions, device=device),
    "reward": torch.zeros(size, 1, device=device),
}
filled = 0


def act(state):
    mean, spread = actor(state).chunk(2, -1)
    normal = torch.distributions.Normal(mean, spread.clamp(-20, 2).exp())
    raw = normal.rsample()
    action = torch.tanh(raw)
    chance = (normal.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)).sum(-1, keepdim=True)
    return action, chance


state = torch.randn(states)
for step in range(300):
    with torch.no_grad():
        action = act(state.to(device)[None])[0][0].cpu().numpy()
    after, reward = torch.randn(states), float(action.sum())
    for name, value in (("state", state), ("next", after), ("action", action), ("reward", reward)):
        buffer[name][filled] = torch.as_tensor(value, dtype=torch.float32)
    filled, state = filled + 1, after
    if step < 100:
        continue
    rows = torch.randint(0, filled, (batch,), device=device)
    s, n, a, r = (buffer[k][rows] for k in ("state", "next", "action", "reward"))
    with torch.no_grad():
        new, chance = act(n)
        least = torch.min(*(t(torch.cat([n, new], -1)) for t in targets))
        wanted = r + 0.99 * (least - log_alpha.exp() * chance)
    loss = sum(F.mse_loss(c(torch.cat([s, a], -1)), wanted) for c in critics)
    of_critics.zero_grad()
    loss.backward()
    of_critics.step()
    made, chance = act(s)
    cost = (
        log_alpha.exp().detach() * chance
        - torch.min(*(c(torch.cat([s, made], -1)) for c in critics))
    ).mean()
    of_actor.zero_grad()
    cost.backward()
    of_actor.step()
    of_alpha.zero_grad()
    (-log_alpha * (chance.detach() - actions).mean()).backward()
    of_alpha.step()
    with torch.no_grad():
        for old, now in zip(targets.parameters(), critics.parameters()):
            old.lerp_(now, 0.005)
print(float(loss), float(cost), log_alpha.exp().item())
