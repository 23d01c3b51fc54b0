"""Quantile-regression DQN on made-up arcade frames with large batches: dueling quantile heads, target network, uniform replay in host memory."""

import argparse
import random
from collections import deque

import numpy as np
import torch
from torch import nn


class Frames:
    """Replay of single frames; states of four frames are put together when sampled."""

    def __init__(self, capacity, seed):
        self.frames = np.zeros((capacity, 84, 84), np.uint8)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards = np.zeros(capacity, np.float32)
        self.dones = np.zeros(capacity, np.float32)
        self.capacity, self.size = capacity, 0
        self.rng = np.random.default_rng(seed)

    def push(self, frame, action, reward, done):
        i = self.size % self.capacity
        self.frames[i], self.actions[i], self.rewards[i], self.dones[i] = (
            frame,
            action,
            reward,
            done,
        )
        self.size += 1

    def sample(self, batch, device):
        high = min(self.size, self.capacity) - 1
        i = self.rng.integers(4, high, batch)
        stack = i[:, None] + np.arange(-3, 1)
        state = torch.from_numpy(self.frames[stack]).to(device, non_blocking=True)
        after = torch.from_numpy(self.frames[stack + 1]).to(device, non_blocking=True)
        rest = [torch.from_numpy(x[i]).to(device) for x in (self.actions, self.rewards, self.dones)]
        return state, after, *rest


class ArcadeEnv:
    def __init__(self, actions):
        self.actions = actions
        self.paddle, self.time = 40, 0

    def step(self, action):
        self.paddle = min(76, max(8, self.paddle + 4 * (action % 3 - 1)))
        self.time = (self.time + 1) % 200
        frame = np.zeros((84, 84), np.uint8)
        frame[78:82, self.paddle - 8 : self.paddle + 8] = 200
        ball = self.time % 80
        frame[ball : ball + 4, ball : ball + 4] = 255
        hit = ball == 76 and abs(self.paddle - 78) < 10
        return frame, float(hit), self.time == 0


class DuelingQuantiles(nn.Module):
    def __init__(self, actions, quantiles, hidden):
        super().__init__()
        self.actions, self.quantiles = actions, quantiles
        self.body = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3), nn.ReLU(),
            nn.Flatten(),
        )  # fmt: skip
        self.value = nn.Sequential(nn.Linear(3136, hidden), nn.ReLU(), nn.Linear(hidden, quantiles))
        self.advantage = nn.Sequential(
            nn.Linear(3136, hidden), nn.ReLU(), nn.Linear(hidden, actions * quantiles)
        )

    def forward(self, x):
        x = self.body(x.float() / 255)
        adv = self.advantage(x).view(-1, self.actions, self.quantiles)
        return self.value(x).unsqueeze(1) + adv - adv.mean(1, keepdim=True)


def quantile_huber(current, wanted, taus, kappa=1.0):
    """current (B, N), wanted (B, M) -> scalar"""
    delta = wanted.unsqueeze(1) - current.unsqueeze(2)
    huber = torch.where(
        delta.abs() <= kappa, 0.5 * delta.pow(2), kappa * (delta.abs() - 0.5 * kappa)
    )
    weight = (taus.view(1, -1, 1) - (delta.detach() < 0).float()).abs()
    return (weight * huber / kappa).mean(2).sum(1).mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--capacity", type=int, default=20_000)
    p.add_argument("--warmup", type=int, default=3000)
    p.add_argument("--updates", type=int, default=40)
    p.add_argument("--batch", type=int, default=2048)
    p.add_argument("--quantiles", type=int, default=200)
    p.add_argument("--actions", type=int, default=18)
    p.add_argument("--hidden", type=int, default=512)
    a = p.parse_args()
    random.seed(9)
    torch.manual_seed(9)

    online = DuelingQuantiles(a.actions, a.quantiles, a.hidden).to(a.device)
    target = DuelingQuantiles(a.actions, a.quantiles, a.hidden).to(a.device).eval()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=5e-5, eps=0.01 / a.batch)
    taus = (torch.arange(a.quantiles, device=a.device) + 0.5) / a.quantiles
    replay, env = Frames(a.capacity, 0), ArcadeEnv(a.actions)
    for _ in range(a.warmup):
        action = random.randrange(a.actions)
        frame, reward, done = env.step(action)
        replay.push(frame, action, reward, done)

    recent = deque([np.zeros((84, 84), np.uint8)] * 4, maxlen=4)
    losses = deque(maxlen=10)
    for update in range(1, a.updates + 1):
        for _ in range(4):
            if random.random() < 0.1:
                action = random.randrange(a.actions)
            else:
                with torch.no_grad():
                    state = torch.from_numpy(np.stack(recent))[None].to(a.device)
                    action = online(state).mean(2).argmax(1).item()
            frame, reward, done = env.step(action)
            recent.append(frame)
            replay.push(frame, action, reward, done)

        state, after, action, reward, done = replay.sample(a.batch, a.device)
        with torch.no_grad():
            best = online(after).mean(2).argmax(1)
            z = target(after)[torch.arange(a.batch, device=a.device), best]
            wanted = reward[:, None] + 0.99 * (1 - done[:, None]) * z
        current = online(state)[torch.arange(a.batch, device=a.device), action]
        loss = quantile_huber(current, wanted, taus)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), 10.0)
        optimizer.step()
        losses.append(loss.item())
        if update % 10 == 0:
            target.load_state_dict(online.state_dict())
            print(f"update {update} loss {np.mean(losses):.4f} q {current.mean().item():.4f}")


if __name__ == "__main__":
    main()
