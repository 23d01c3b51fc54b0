"""PPO with an IMPALA residual net on a toy pixel world (64 environments stepped together in numpy)."""

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

ENVS = 64
HORIZON = 64
UPDATES = 3
EPOCHS = 3
MINIBATCH = 1024
SIDE = 84
ACTIONS = 5
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2


class CatchWorld:
    """a player chases a coin; three channels: player, coin, noise"""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.player = rng.integers(4, SIDE - 4, (n, 2))
        self.coin = rng.integers(4, SIDE - 4, (n, 2))

    def observe(self):
        obs = np.zeros((self.n, 3, SIDE, SIDE), dtype=np.uint8)
        for i in range(self.n):
            y, x = self.player[i]
            obs[i, 0, y - 3 : y + 4, x - 3 : x + 4] = 255
            y, x = self.coin[i]
            obs[i, 1, y - 2 : y + 3, x - 2 : x + 3] = 255
        obs[:, 2] = self.rng.integers(0, 20, (self.n, SIDE, SIDE), dtype=np.uint8)
        return obs

    def step(self, actions):
        moves = np.array([[0, 0], [0, 4], [0, -4], [4, 0], [-4, 0]])
        self.player = np.clip(self.player + moves[actions], 4, SIDE - 5)
        hit = np.abs(self.player - self.coin).max(axis=1) < 5
        self.coin[hit] = self.rng.integers(4, SIDE - 4, (int(hit.sum()), 2))
        return self.observe(), hit.astype(np.float32), hit.astype(np.float32)


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return x + self.b(F.relu(self.a(F.relu(x))))


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        layers, cin = [], 3
        for c in (32, 64, 64):
            layers += [
                nn.Conv2d(cin, c, 3, padding=1),
                nn.MaxPool2d(3, 2, 1),
                Residual(c),
                Residual(c),
            ]
            cin = c
        self.body = nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.LazyLinear(512), nn.ReLU())
        self.pi, self.v = nn.Linear(512, ACTIONS), nn.Linear(512, 1)

    def forward(self, obs):
        h = self.body(obs.float() / 255)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def main():
    random.seed(21)
    np.random.seed(21)
    torch.manual_seed(21)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env = CatchWorld(ENVS, np.random.default_rng(21))
    agent = Agent().to(device)
    obs = torch.from_numpy(env.observe()).to(device)
    with torch.no_grad():
        agent(obs[:1])
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)

    buf_obs = torch.zeros(HORIZON, ENVS, 3, SIDE, SIDE, dtype=torch.uint8, device=device)
    buf_act = torch.zeros(HORIZON, ENVS, dtype=torch.long, device=device)
    buf_logp, buf_val, buf_rew, buf_done = (
        torch.zeros(HORIZON, ENVS, device=device) for _ in range(4)
    )

    for update in range(UPDATES):
        for t in range(HORIZON):
            with torch.no_grad():
                dist, value = agent(obs)
            action = dist.sample()
            buf_obs[t], buf_act[t], buf_logp[t], buf_val[t] = (
                obs,
                action,
                dist.log_prob(action),
                value,
            )
            nxt, reward, done = env.step(action.cpu().numpy())
            buf_rew[t], buf_done[t] = (
                torch.from_numpy(reward).to(device),
                torch.from_numpy(done).to(device),
            )
            obs = torch.from_numpy(nxt).to(device)

        with torch.no_grad():
            last = agent(obs)[1]
        adv, gae = torch.zeros_like(buf_rew), 0
        for t in reversed(range(HORIZON)):
            nv = last if t == HORIZON - 1 else buf_val[t + 1]
            delta = buf_rew[t] + GAMMA * nv * (1 - buf_done[t]) - buf_val[t]
            gae = delta + GAMMA * LAMBDA * (1 - buf_done[t]) * gae
            adv[t] = gae
        ret = (adv + buf_val).flatten()
        o, a, lp, adv = buf_obs.flatten(0, 1), buf_act.flatten(), buf_logp.flatten(), adv.flatten()

        for _ in range(EPOCHS):
            for idx in torch.randperm(HORIZON * ENVS, device=device).split(MINIBATCH):
                dist, value = agent(o[idx])
                ratio = (dist.log_prob(a[idx]) - lp[idx]).exp()
                A = (adv[idx] - adv[idx].mean()) / (adv[idx].std() + 1e-8)
                pg = -torch.min(ratio * A, ratio.clamp(1 - CLIP, 1 + CLIP) * A).mean()
                loss = pg + 0.5 * F.mse_loss(value, ret[idx]) - 0.01 * dist.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        print(f"update {update} reward {buf_rew.sum().item():.0f} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
