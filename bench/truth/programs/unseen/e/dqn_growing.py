"""Double DQN on a catching game with pictures: every step goes to a memory on the GPU that only grows."""

import argparse
import random
from collections import namedtuple

import torch
from torch import nn, optim

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class ReplayMemory:
    def __init__(self):
        self.memory = []

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class CatchGame:
    """Many games side by side: something falls, the player moves left or right below it."""

    def __init__(self, games, side, device):
        self.games, self.side, self.device = games, side, device
        self.reset()

    def reset(self):
        self.row = 0
        self.column = torch.randint(0, self.side, (self.games,), device=self.device)
        self.player = torch.randint(0, self.side, (self.games,), device=self.device)

    def observe(self):
        screen = torch.zeros(self.games, 3, self.side, self.side, device=self.device)
        games = torch.arange(self.games, device=self.device)
        screen[games, 0, self.row, self.column] = 1
        screen[games, 1, -1, self.player] = 1
        screen[:, 2] = self.row / self.side
        return screen

    def step(self, action):
        self.player = (self.player + 4 * (action - 1)).clamp(0, self.side - 1)
        self.row += 4
        if self.row < self.side:
            return self.observe(), torch.zeros(self.games, device=self.device)
        reward = ((self.player - self.column).abs() < 4).float() * 2 - 1
        self.reset()
        return self.observe(), reward


class DQN(nn.Module):
    def __init__(self, side, width, actions=3):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 8, 4),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 4, 2),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 1),
            nn.ReLU(),
            nn.Flatten(),
        )
        with torch.no_grad():
            flat = self.body(torch.zeros(1, 3, side, side)).shape[1]
        self.head = nn.Sequential(nn.Linear(flat, 512), nn.ReLU(), nn.Linear(512, actions))

    def forward(self, x):
        return self.head(self.body(x))


def optimize(memory, policy, target, optimizer, args):
    if len(memory) < args.batch:
        return None
    batch = Transition(*zip(*memory.sample(args.batch)))
    state, action = torch.cat(batch.state), torch.cat(batch.action)
    next_state, reward = torch.cat(batch.next_state), torch.cat(batch.reward)
    value = policy(state).gather(1, action.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = policy(next_state).argmax(1, keepdim=True)
        expected = reward + args.gamma * target(next_state).gather(1, best).squeeze(1)
    loss = nn.functional.smooth_l1_loss(value, expected)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(policy.parameters(), 100)
    optimizer.step()
    return loss


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--games", type=int, default=16)
    p.add_argument("--side", type=int, default=84)
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--steps", type=int, default=1200)
    p.add_argument("--batch", type=int, default=32, help="pushes, of all games each")
    p.add_argument("--gamma", type=float, default=0.95)
    p.add_argument("--tau", type=float, default=0.01)
    args = p.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    policy = DQN(args.side, args.width).to(device)
    target = DQN(args.side, args.width).to(device)
    target.load_state_dict(policy.state_dict())
    optimizer = optim.AdamW(policy.parameters(), lr=1e-4, amsgrad=True)
    memory, game = ReplayMemory(), CatchGame(args.games, args.side, device)
    state, total = game.observe(), 0.0
    for step in range(args.steps):
        epsilon = max(0.05, 1 - step / (args.steps / 2))
        if random.random() > epsilon:
            with torch.no_grad():
                action = policy(state).argmax(1)
        else:
            action = torch.randint(0, 3, (args.games,), device=device)
        next_state, reward = game.step(action)
        memory.push(state, action, next_state, reward)
        state = next_state
        total += reward.sum().item()
        loss = optimize(memory, policy, target, optimizer, args)
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), policy.parameters()):
                slow.lerp_(fast, args.tau)
        if loss is not None and step % 200 == 0:
            print(f"step {step}: loss {loss.item():.4f}, reward {total:.0f}, {len(memory)} kept")
    torch.save(policy.state_dict(), "dqn.pt")


if __name__ == "__main__":
    main()
