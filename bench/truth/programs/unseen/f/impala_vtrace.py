"""An actor-critic with V-trace: games simulated on the card, a residual net, an actor copy that lags behind."""

import copy
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn

GAMES, UNROLL, UPDATES, LAG = 64, 20, 40, 4
ACTIONS, FRAMES, SIZE = 6, 4, 84
GAMMA, ENTROPY, VALUE_COST = 0.99, 0.01, 0.5
device = torch.device("cuda")


class Catch:
    """A ball falls, a paddle catches; all games at once."""

    def __init__(self, count):
        self.count = count
        self.ball = torch.rand(count, 2, device=device) * 0.5
        self.paddle = torch.rand(count, device=device)
        self.stack = torch.zeros(count, FRAMES, SIZE, SIZE, dtype=torch.uint8, device=device)
        self.grid = torch.linspace(0, 1, SIZE, device=device)

    def observe(self):
        rows = (self.grid[None] - self.ball[:, 1:]).abs() < 0.03
        columns = (self.grid[None] - self.ball[:, :1]).abs() < 0.03
        frame = (rows[:, :, None] & columns[:, None]).to(torch.uint8) * 255
        paddle = ((self.grid[None] - self.paddle[:, None]).abs() < 0.08).to(torch.uint8) * 255
        frame[:, -3:] = paddle[:, None]
        self.stack = torch.cat([self.stack[:, 1:], frame[:, None]], 1)
        return self.stack

    def step(self, action):
        self.paddle = (self.paddle + (action.float() - (ACTIONS - 1) / 2) * 0.03).clamp(0, 1)
        self.ball[:, 1] += 0.05
        done = self.ball[:, 1] > 0.97
        reward = torch.where((self.ball[:, 0] - self.paddle).abs() < 0.1, 1.0, -1.0) * done
        fresh = torch.rand_like(self.ball) * torch.tensor([1.0, 0.2], device=device)
        self.ball = torch.where(done[:, None], fresh, self.ball)
        return self.observe(), reward, done


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Conv2d(width, width, 3, padding=1)
        self.b = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + self.b(F.relu(self.a(F.relu(x))))


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        layers, last = [], FRAMES
        for width in (32, 64, 64):
            layers += [
                nn.Conv2d(last, width, 3, padding=1),
                nn.MaxPool2d(3, 2, 1),
                Residual(width),
                Residual(width),
            ]
            last = width
        self.body = nn.Sequential(
            *layers, nn.ReLU(), nn.Flatten(), nn.Linear(64 * 11 * 11, 512), nn.ReLU()
        )
        self.policy, self.value = nn.Linear(512, ACTIONS), nn.Linear(512, 1)

    def forward(self, frames):
        x = self.body(frames.float() / 255)
        return self.policy(x), self.value(x).squeeze(-1)


def vtrace(ratio, reward, discount, values, last):
    with torch.no_grad():
        clipped = ratio.clamp(max=1.0)
        following = torch.cat([values[1:], last[None]])
        delta = clipped * (reward + discount * following - values)
        total, out = torch.zeros_like(last), []
        for t in reversed(range(len(reward))):
            total = delta[t] + discount[t] * clipped[t] * total
            out.append(total)
        target = torch.stack(out[::-1]) + values
        advantage = clipped * (reward + discount * torch.cat([target[1:], last[None]]) - values)
    return target, advantage


def unroll(actor, games, frames):
    steps = []
    with torch.no_grad():
        for _ in range(UNROLL):
            logits, _ = actor(frames)
            action = torch.distributions.Categorical(logits=logits).sample()
            following, reward, done = games.step(action)
            steps.append((frames, action, logits, reward, done))
            frames = following
    return [torch.stack(part) for part in zip(*steps)], frames


def main():
    torch.manual_seed(77)
    games = Catch(GAMES)
    learner = Agent().to(device)
    actor = copy.deepcopy(learner)
    optimizer = torch.optim.RMSprop(learner.parameters(), lr=6e-4, alpha=0.99, eps=0.01)
    frames, returns = games.observe(), deque(maxlen=20)
    for update in range(UPDATES):
        (seen, action, behaviour, reward, done), frames = unroll(actor, games, frames)
        logits, values = learner(seen.flatten(0, 1))
        logits, values = logits.view(UNROLL, GAMES, -1), values.view(UNROLL, GAMES)
        with torch.no_grad():
            last = learner(frames)[1]
        now = torch.distributions.Categorical(logits=logits)
        log_new = now.log_prob(action)
        log_old = torch.distributions.Categorical(logits=behaviour).log_prob(action)
        ratio = (log_new - log_old).exp().detach()
        target, advantage = vtrace(ratio, reward, GAMMA * (~done), values, last)
        loss = -(log_new * advantage).mean() + VALUE_COST * F.mse_loss(values, target)
        loss = loss - ENTROPY * now.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(learner.parameters(), 40.0)
        optimizer.step()
        if update % LAG == 0:
            actor.load_state_dict(learner.state_dict())
        returns.append(reward.sum().item() / max(1, done.sum().item()))
        if update % 10 == 9:
            print(f"{update}: return {sum(returns) / len(returns):.3f}, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
