"""Deep Q learning: a target network, a replay memory on the host, updates every fourth step."""

import random
from collections import deque

import numpy as np
import torch
from torch import nn


class Q(nn.Module):
    def __init__(self, actions):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3),
            nn.ReLU(),
        )
        self.value, self.advantage = (
            nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 1)),
            nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions)),
        )

    def forward(self, x):
        x = self.features(x.float() / 255).flatten(1)
        a = self.advantage(x)
        return self.value(x) + a - a.mean(1, keepdim=True)


device = "cuda"
online, target = Q(6).to(device), Q(6).to(device)
target.load_state_dict(online.state_dict())
optimizer = torch.optim.RMSprop(online.parameters(), lr=2.5e-4, alpha=0.95, eps=0.01)
memory = deque(maxlen=20000)
state = np.zeros((4, 84, 84), dtype=np.uint8)
losses = []
for frame in range(3000):
    epsilon = max(0.1, 1 - frame / 2000)
    if random.random() < epsilon:
        action = random.randrange(6)
    else:
        with torch.no_grad():
            action = online(torch.from_numpy(state)[None].to(device)).argmax(1).item()
    following = np.roll(state, 1, 0)
    following[0] = np.random.randint(0, 255, (84, 84))
    memory.append((state, action, random.random(), following, random.random() < 0.01))
    state = following
    if frame >= 500 and frame % 4 == 0:
        s, a, r, n, d = zip(*random.sample(memory, 256))
        s, n = torch.tensor(np.stack(s), device=device), torch.tensor(np.stack(n), device=device)
        a, r, d = (
            torch.tensor(a, device=device),
            torch.tensor(r, device=device),
            torch.tensor(d, device=device, dtype=torch.float32),
        )
        with torch.no_grad():
            best = online(n).argmax(1)
            wanted = r + 0.99 * (1 - d) * target(n).gather(1, best[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(online(s).gather(1, a[:, None])[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        for p in online.parameters():
            p.grad.clamp_(-1, 1)
        optimizer.step()
        losses.append(loss.item())
    if frame % 1000 == 0:
        target.load_state_dict(online.state_dict())
print(np.mean(losses))
