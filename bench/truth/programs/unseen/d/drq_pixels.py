"""Control from pixels (DrQ-v2): random shifts, n-step returns, two critics, a replay memory on the host."""

import argparse
import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class PointWorld:
    """A dot that is pushed towards a corner, drawn as three frames of 84 x 84."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.at = self.rng.uniform(-1, 1, 2)
        self.frames = [self.draw()] * 3
        self.t = 0
        return np.concatenate(self.frames)

    def draw(self):
        frame = np.zeros((3, 84, 84), np.uint8)
        x, y = ((self.at + 1) * 38).astype(int) + 3
        frame[:, max(y - 3, 0) : y + 4, max(x - 3, 0) : x + 4] = 255
        return frame

    def step(self, action):
        self.at = np.clip(self.at + 0.1 * np.asarray(action), -1, 1)
        self.frames = [*self.frames[1:], self.draw()]
        self.t += 1
        return np.concatenate(self.frames), -float(np.abs(self.at - 0.8).sum()), self.t >= 100


class Replay:
    def __init__(self, size):
        self.obs = np.zeros((size, 9, 84, 84), np.uint8)
        self.action = np.zeros((size, 2), np.float32)
        self.reward = np.zeros((size, 1), np.float32)
        self.end = np.zeros((size, 1), bool)
        self.count, self.size = 0, size

    def add(self, obs, action, reward, end):
        i = self.count % self.size
        self.obs[i], self.action[i], self.reward[i], self.end[i] = obs, action, reward, end
        self.count += 1

    def sample(self, batch, n, gamma, rng):
        start = rng.integers(0, min(self.count, self.size) - n, batch)
        reward, discount = np.zeros((batch, 1), np.float32), np.ones((batch, 1), np.float32)
        for k in range(n):
            reward += discount * self.reward[start + k]
            discount *= gamma * (1 - self.end[start + k])
        return self.obs[start], self.action[start], reward, discount, self.obs[start + n]


def random_shifts(x, pad=4):
    n, _, h, _ = x.shape
    x = F.pad(x, [pad] * 4, "replicate")
    side = h + 2 * pad
    line = torch.linspace(-1 + 1 / side, 1 - 1 / side, side, device=x.device)[:h]
    line = line[None].repeat(h, 1)[..., None]
    base = torch.cat([line, line.transpose(0, 1)], 2)[None].repeat(n, 1, 1, 1)
    shift = torch.randint(0, 2 * pad + 1, (n, 1, 1, 2), device=x.device).float()
    return F.grid_sample(x, base + shift * 2 / side, padding_mode="zeros", align_corners=False)


def encoder(channels):
    layers, c = [], 9
    for i in range(4):
        layers += [nn.Conv2d(c, channels, 3, 2 if i == 0 else 1), nn.ReLU()]
        c = channels
    return nn.Sequential(*layers, nn.Flatten())


def mlp(inputs, outputs, hidden):
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, outputs),
    )


class Critic(nn.Module):
    def __init__(self, features, trunk, hidden):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(features, trunk), nn.LayerNorm(trunk), nn.Tanh())
        self.q1, self.q2 = mlp(trunk + 2, 1, hidden), mlp(trunk + 2, 1, hidden)

    def forward(self, h, action):
        both = torch.cat([self.trunk(h), action], -1)
        return self.q1(both), self.q2(both)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--frames", type=int, default=1200)
    p.add_argument("--seed-frames", type=int, default=600)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--channels", type=int, default=32)
    p.add_argument("--hidden", type=int, default=1024)
    a = p.parse_args()
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    world, replay = PointWorld(1), Replay(5000)
    encode = encoder(a.channels).to(device)
    features = a.channels * 35 * 35
    actor = nn.Sequential(
        nn.Linear(features, 50), nn.LayerNorm(50), nn.Tanh(), mlp(50, 2, a.hidden), nn.Tanh()
    ).to(device)
    critic = Critic(features, 50, a.hidden).to(device)
    target = copy.deepcopy(critic)
    actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-4)
    critic_opt = torch.optim.Adam([*encode.parameters(), *critic.parameters()], lr=1e-4)

    def pixels(x):
        return torch.as_tensor(x, device=device).float() / 255.0 - 0.5

    obs, total = world.reset(), 0.0
    for frame in range(a.frames):
        std = max(0.1, 1.0 - frame / a.frames)
        if frame < a.seed_frames:
            action = rng.uniform(-1, 1, 2).astype(np.float32)
        else:
            with torch.no_grad():
                action = actor(encode(pixels(obs[None])))[0].cpu().numpy()
            action = np.clip(action + std * rng.standard_normal(2), -1, 1).astype(np.float32)
        following, reward, end = world.step(action)
        replay.add(obs, action, reward, end)
        total += reward
        obs = following
        if end:
            print(f"frame {frame}: return {total:.1f}")
            obs, total = world.reset(), 0.0
        if frame < a.seed_frames or frame % 4:
            continue
        o, act, rew, discount, nxt = replay.sample(a.batch, 3, 0.99, rng)
        act, rew, discount = (torch.as_tensor(v, device=device) for v in (act, rew, discount))
        h = encode(random_shifts(pixels(o)))
        with torch.no_grad():
            h_next = encode(random_shifts(pixels(nxt)))
            mean = actor(h_next)
            noise = (torch.randn_like(mean) * std).clamp(-0.3, 0.3)
            goal = rew + discount * torch.min(*target(h_next, (mean + noise).clamp(-1, 1)))
        q1, q2 = critic(h, act)
        critic_loss = F.mse_loss(q1, goal) + F.mse_loss(q2, goal)
        critic_opt.zero_grad(set_to_none=True)
        critic_loss.backward()
        critic_opt.step()
        h = h.detach()
        actor_loss = -torch.min(*critic(h, actor(h))).mean()
        actor_opt.zero_grad(set_to_none=True)
        actor_loss.backward()
        actor_opt.step()
        for slow, fast in zip(target.parameters(), critic.parameters()):
            slow.data.lerp_(fast.data, 0.01)
    torch.save({"encoder": encode.state_dict(), "actor": actor.state_dict()}, "drq.pt")
    print(f"critic {critic_loss.item():.4f}, actor {actor_loss.item():.4f}")


if __name__ == "__main__":
    main()
