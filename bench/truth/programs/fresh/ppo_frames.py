"""Proximal policy optimization on stacks of frames: rollouts on the GPU, then epochs of minibatches."""

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

envs, length, epochs, parts = 32, 64, 3, 4
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class FrameEnv:
    """Stands in for an emulator."""

    def __init__(self, count):
        self.count, self.rng = count, np.random.default_rng(0)

    def reset(self):
        return self.rng.integers(0, 255, (self.count, 4, 84, 84), dtype=np.uint8)

    def step(self, actions):
        return self.reset(), self.rng.normal(size=self.count), self.rng.random(self.count) < 0.01


def init(layer, std=2**0.5):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, 0)
    return layer


class Agent(nn.Module):
    def __init__(self, actions=6):
        super().__init__()
        self.body = nn.Sequential(
            init(nn.Conv2d(4, 32, 8, 4)), nn.ReLU(), init(nn.Conv2d(32, 64, 4, 2)), nn.ReLU(),
            init(nn.Conv2d(64, 64, 3, 1)), nn.ReLU(), nn.Flatten(), init(nn.Linear(3136, 512)), nn.ReLU(),
        )  # fmt: skip
        self.policy, self.value = init(nn.Linear(512, actions), 0.01), init(nn.Linear(512, 1), 1)

    def forward(self, x, action=None):
        hidden = self.body(x / 255.0)
        spread = Categorical(logits=self.policy(hidden))
        action = spread.sample() if action is None else action
        return action, spread.log_prob(action), spread.entropy(), self.value(hidden).squeeze(-1)


agent = Agent().to(device)
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
env = FrameEnv(envs)
obs = torch.zeros((length, envs, 4, 84, 84), device=device)
actions, logs, rewards, dones, values = (
    torch.zeros((length, envs), device=device) for _ in range(5)
)
state, done = torch.Tensor(env.reset()).to(device), torch.zeros(envs, device=device)
for update in range(4):
    for t in range(length):
        obs[t], dones[t] = state, done
        with torch.no_grad():
            action, log, _, value = agent(state)
        actions[t], logs[t], values[t] = action, log, value
        following, reward, ended = env.step(action.cpu().numpy())
        rewards[t] = torch.tensor(reward, device=device)
        state, done = torch.Tensor(following).to(device), torch.Tensor(ended).to(device)
    with torch.no_grad():
        last = agent(state)[3]
        advantages, running = torch.zeros_like(rewards), 0
        for t in reversed(range(length)):
            alive = 1.0 - (done if t == length - 1 else dones[t + 1])
            ahead = last if t == length - 1 else values[t + 1]
            delta = rewards[t] + 0.99 * ahead * alive - values[t]
            advantages[t] = running = delta + 0.99 * 0.95 * alive * running
        returns = advantages + values
    flat = [x.flatten(0, 1) for x in (obs, actions, logs, advantages, returns)]
    order = np.arange(envs * length)
    for _ in range(epochs):
        np.random.shuffle(order)
        for rows in np.array_split(order, parts):
            o, a, old, adv, ret = (x[rows] for x in flat)
            _, log, entropy, value = agent(o, a.long())
            ratio = (log - old).exp()
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            policy = torch.max(-adv * ratio, -adv * ratio.clamp(0.9, 1.1)).mean()
            loss = policy + 0.5 * (value - ret).pow(2).mean() - 0.01 * entropy.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
        with torch.no_grad():
            if ((ratio - 1) - (log - old)).mean() > 0.5:
                break
    print(update, loss.item(), rewards.mean().item())
