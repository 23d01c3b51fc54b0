"""TD3 from pixels: a replay buffer of frames on the card, random-shift augmentation, a shared encoder, separate optimizers for actor and critics."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Reacher:
    """A dot that is pushed towards a goal; renders 84 x 84 RGB frames, stacks three."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.dot, self.goal = self.rng.uniform(8, 76, 2), self.rng.uniform(8, 76, 2)
        self.time = 0
        self.frames = [self.render()] * 3
        return np.concatenate(self.frames)

    def render(self):
        frame = np.full((3, 84, 84), 30, np.uint8)
        for channel, (y, x) in ((0, self.dot), (1, self.goal)):
            y, x = int(y), int(x)
            frame[channel, y - 4 : y + 4, x - 4 : x + 4] = 255
        return frame

    def step(self, action):
        self.dot = np.clip(self.dot + 4 * action, 8, 76)
        self.time += 1
        self.frames = [*self.frames[1:], self.render()]
        reward = -np.abs(self.dot - self.goal).mean() / 76
        return np.concatenate(self.frames), reward, self.time >= 50


class Replay:
    def __init__(self, capacity, actions, device):
        self.obs = torch.zeros(capacity, 9, 84, 84, dtype=torch.uint8, device=device)
        self.action = torch.zeros(capacity, actions, device=device)
        self.reward = torch.zeros(capacity, 1, device=device)
        self.alive = torch.ones(capacity, 1, device=device)
        self.capacity, self.at, self.size, self.device = capacity, 0, 0, device

    def add(self, obs, action, reward, done):
        self.obs[self.at] = torch.from_numpy(obs).to(self.device)
        self.action[self.at] = torch.as_tensor(action, dtype=torch.float32)
        self.reward[self.at], self.alive[self.at] = float(reward), float(not done)
        self.at = (self.at + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, batch):
        i = torch.randint(0, self.size - 1, (batch,), device=self.device)
        return self.obs[i], self.action[i], self.reward[i], self.obs[i + 1], self.alive[i]


def shift(x, pad=4):
    """DrQ's random shift, one offset per image."""
    n, _, h, _ = x.shape
    x = F.pad(x.float(), (pad,) * 4, mode="replicate")
    size = h + 2 * pad
    line = torch.linspace(-1 + 1 / size, 1 - 1 / size, size, device=x.device)[:h]
    base = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1).expand(n, h, h, 2)
    offset = torch.randint(0, 2 * pad + 1, (n, 1, 1, 2), device=x.device) * (2.0 / size)
    return F.grid_sample(x, base + offset, padding_mode="zeros", align_corners=False)


class Encoder(nn.Module):
    def __init__(self, out, w=32):
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv2d(9, w, 3, 2), nn.ReLU(), nn.Conv2d(w, w, 3), nn.ReLU(),
            nn.Conv2d(w, w, 3), nn.ReLU(), nn.Conv2d(w, w, 3), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        self.project = nn.Sequential(nn.Linear(w * 35 * 35, out), nn.LayerNorm(out), nn.Tanh())

    def forward(self, obs):
        return self.project(self.convs(obs / 255 - 0.5))


def mlp(inputs, hidden, outputs):
    layers = [nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, outputs))


class Critic(nn.Module):
    def __init__(self, features, actions, hidden):
        super().__init__()
        self.encoder = Encoder(features)
        self.q1 = mlp(features + actions, hidden, 1)
        self.q2 = mlp(features + actions, hidden, 1)

    def forward(self, obs, action):
        x = torch.cat([self.encoder(obs), action], 1)
        return self.q1(x), self.q2(x)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--capacity", type=int, default=60_000)
    p.add_argument("--warmup", type=int, default=400)
    p.add_argument("--steps", type=int, default=120)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--features", type=int, default=100)
    p.add_argument("--hidden", type=int, default=1024)
    args = p.parse_args()
    torch.manual_seed(1)
    np.random.seed(1)

    critic = Critic(args.features, 2, args.hidden).to(args.device)
    target = Critic(args.features, 2, args.hidden).to(args.device)
    target.load_state_dict(critic.state_dict())
    actor = nn.Sequential(mlp(args.features, args.hidden, 2), nn.Tanh()).to(args.device)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-4)
    replay = Replay(args.capacity, 2, args.device)

    env = Reacher(0)
    obs, total, returns = env.reset(), 0.0, []
    for step in range(args.warmup + args.steps):
        if step < args.warmup:
            action = np.random.uniform(-1, 1, 2)
        else:
            with torch.no_grad():
                x = torch.from_numpy(obs)[None].to(args.device)
                action = actor(critic.encoder(x.float()))[0].cpu().numpy()
            action = np.clip(action + 0.2 * np.random.randn(2), -1, 1)
        following, reward, done = env.step(action)
        replay.add(obs, action, reward, done)
        total += reward
        obs = following
        if done:
            returns.append(total)
            obs, total = env.reset(), 0.0
        if step < args.warmup:
            continue

        o, a, r, o2, alive = replay.sample(args.batch)
        o, o2 = shift(o), shift(o2)
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(a)).clamp(-0.3, 0.3)
            a2 = (actor(critic.encoder(o2)) + noise).clamp(-1, 1)
            y = r + 0.99 * alive * torch.min(*target(o2, a2))
        q1, q2 = critic(o, a)
        critic_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        critic_optimizer.zero_grad(set_to_none=True)
        critic_loss.backward()
        critic_optimizer.step()
        if step % 2 == 0:
            z = critic.encoder(o).detach()
            actor_loss = -critic.q1(torch.cat([z, actor(z)], 1)).mean()
            actor_optimizer.zero_grad(set_to_none=True)
            actor_loss.backward()
            actor_optimizer.step()
            with torch.no_grad():
                for old, new in zip(target.parameters(), critic.parameters()):
                    old.lerp_(new, 0.01)
        if step % 20 == 0:
            print(
                f"step {step} critic {critic_loss.item():.4f} return {np.mean(returns[-5:] or [0]):.2f}"
            )


if __name__ == "__main__":
    main()
