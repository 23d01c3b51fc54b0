"""Advantage actor-critic with a GRU policy on a vectorized maze that lives on the GPU; returns by GAE, truncated episodes."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Settings:
    envs: int = 512
    side: int = 15
    view: int = 9
    zoom: int = 6
    rollout: int = 32
    updates: int = 12
    hidden: int = 512
    gamma: float = 0.99
    lam: float = 0.95
    lr: float = 7e-4
    entropy: float = 0.01
    horizon: int = 80
    seed: int = 2


class MazeBatch:
    """Many mazes at once: walls, an agent and a goal, the agent sees a window around itself."""

    def __init__(self, s, device):
        self.s, self.device = s, device
        self.moves = torch.tensor([[-1, 0], [1, 0], [0, -1], [0, 1]], device=device)
        self.rows = torch.arange(s.envs, device=device)
        self.walls = torch.ones(s.envs, s.side, s.side, dtype=torch.bool, device=device)
        self.agent = torch.zeros(s.envs, 2, dtype=torch.long, device=device)
        self.goal = torch.zeros_like(self.agent)
        self.clock = torch.zeros(s.envs, dtype=torch.long, device=device)
        self.reset(torch.ones(s.envs, dtype=torch.bool, device=device))

    def reset(self, which):
        s = self.s
        walls = torch.rand(s.envs, s.side, s.side, device=self.device) < 0.25
        walls[:, 0] = walls[:, -1] = True
        walls[:, :, 0] = walls[:, :, -1] = True
        place = lambda: torch.randint(1, s.side - 1, (s.envs, 2), device=self.device)
        agent, goal = place(), place()
        walls[self.rows, agent[:, 0], agent[:, 1]] = False
        walls[self.rows, goal[:, 0], goal[:, 1]] = False
        self.walls = torch.where(which[:, None, None], walls, self.walls)
        self.agent = torch.where(which[:, None], agent, self.agent)
        self.goal = torch.where(which[:, None], goal, self.goal)
        self.clock = torch.where(which, torch.zeros_like(self.clock), self.clock)

    def observe(self):
        s = self.s
        goal = torch.zeros(s.envs, s.side, s.side, device=self.device)
        goal[self.rows, self.goal[:, 0], self.goal[:, 1]] = 1
        full = F.pad(torch.stack([self.walls.float(), goal], 1), [s.view // 2] * 4, value=1.0)
        span = torch.arange(s.view, device=self.device)
        y = (self.agent[:, :1] + span)[:, None, :, None]
        x = (self.agent[:, 1:] + span)[:, None, None, :]
        b = self.rows[:, None, None, None]
        c = torch.arange(2, device=self.device)[None, :, None, None]
        return F.interpolate(full[b, c, y, x], scale_factor=s.zoom)

    def step(self, action):
        wanted = self.agent + self.moves[action]
        blocked = self.walls[self.rows, wanted[:, 0], wanted[:, 1]]
        self.agent = torch.where(blocked[:, None], self.agent, wanted)
        self.clock += 1
        found = (self.agent == self.goal).all(1)
        reward = found.float() - 0.01 - 0.02 * blocked.float()
        done = found | (self.clock >= self.s.horizon)
        self.reset(done)
        return self.observe(), reward, done


class Policy(nn.Module):
    def __init__(self, s):
        super().__init__()
        side = s.view * s.zoom
        self.eye = nn.Sequential(
            nn.Conv2d(2, 48, 5, 2),
            nn.ELU(),
            nn.Conv2d(48, 96, 3, 2),
            nn.ELU(),
            nn.Conv2d(96, 96, 3, 1),
            nn.ELU(),
            nn.Flatten(),
        )
        with torch.no_grad():
            flat = self.eye(torch.zeros(1, 2, side, side)).shape[1]
        self.squash = nn.Linear(flat, s.hidden)
        self.memory = nn.GRUCell(s.hidden, s.hidden)
        self.actor, self.critic = nn.Linear(s.hidden, 4), nn.Linear(s.hidden, 1)

    def forward(self, seen, h):
        h = self.memory(F.elu(self.squash(self.eye(seen))), h)
        return self.actor(h), self.critic(h).squeeze(-1), h


def main():
    s = Settings()
    torch.manual_seed(s.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env, policy = MazeBatch(s, device), Policy(s).to(device)
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=s.lr, alpha=0.99, eps=1e-5)
    seen, h = env.observe(), torch.zeros(s.envs, s.hidden, device=device)

    for update in range(s.updates):
        logps, values, entropies, rewards, dones = [], [], [], [], []
        h = h.detach()
        for _ in range(s.rollout):
            logits, value, h = policy(seen, h)
            dist = torch.distributions.Categorical(logits=logits)
            action = dist.sample()
            seen, reward, done = env.step(action)
            h = h * (~done)[:, None]
            logps.append(dist.log_prob(action))
            values.append(value)
            entropies.append(dist.entropy())
            rewards.append(reward)
            dones.append(done.float())
        with torch.no_grad():
            following = policy(seen, h)[1]
            advantage, advantages = torch.zeros_like(following), []
            for t in reversed(range(s.rollout)):
                delta = rewards[t] + s.gamma * following * (1 - dones[t]) - values[t]
                advantage = delta + s.gamma * s.lam * (1 - dones[t]) * advantage
                advantages.insert(0, advantage)
                following = values[t]
        adv, val = torch.stack(advantages), torch.stack(values)
        target = adv + val.detach()
        actor = -(torch.stack(logps) * (adv - adv.mean()) / (adv.std() + 1e-6)).mean()
        loss = actor + 0.5 * F.mse_loss(val, target) - s.entropy * torch.stack(entropies).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
        print(f"update {update:2d} reward {torch.stack(rewards).mean():.4f} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
