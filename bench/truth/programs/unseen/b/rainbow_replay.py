"""Double, dueling deep Q learning with a prioritized replay memory of frames that lies on the GPU."""

import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn


class CatchGame:
    """A ball falls, a paddle moves: 84 x 84 pictures, three actions."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.reset()

    def reset(self):
        self.ball, self.height, self.paddle = self.rng.randrange(84), 0, 42
        return self.frame()

    def frame(self):
        picture = torch.zeros(84, 84, dtype=torch.uint8)
        picture[min(self.height, 83), self.ball] = 255
        picture[82:, max(0, self.paddle - 5) : self.paddle + 5] = 128
        return picture

    def step(self, action):
        self.paddle = min(max(self.paddle + (action - 1) * 4, 5), 79)
        self.height += 3
        done = self.height >= 82
        reward = (1.0 if abs(self.ball - self.paddle) <= 6 else -1.0) if done else 0.0
        return (self.reset() if done else self.frame()), reward, done


class Replay:
    def __init__(self, size, device, alpha=0.6):
        self.frames = torch.zeros(size, 4, 84, 84, dtype=torch.uint8, device=device)
        self.actions = torch.zeros(size, dtype=torch.long, device=device)
        self.rewards, self.dones = (
            torch.zeros(size, device=device),
            torch.zeros(size, device=device),
        )
        self.priority = torch.zeros(size, device=device)
        self.size, self.alpha, self.count = size, alpha, 0

    def push(self, state, action, reward, done):
        i = self.count % self.size
        self.frames[i] = state
        self.actions[i], self.rewards[i], self.dones[i] = action, reward, float(done)
        self.priority[i] = 1.0
        self.count += 1

    def sample(self, n, beta):
        filled = min(self.count, self.size)
        weights = self.priority[: filled - 1] ** self.alpha
        index = torch.multinomial(weights, n, replacement=True)
        scale = (filled * weights[index] / weights.sum()) ** -beta
        following = self.frames[(index + 1) % self.size]
        batch = (
            self.frames[index],
            self.actions[index],
            self.rewards[index],
            following,
            self.dones[index],
        )
        return index, scale / scale.max(), batch


class Dueling(nn.Module):
    def __init__(self, actions=3, width=64, hidden=1024):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(4, width, 8, 4),
            nn.ReLU(),
            nn.Conv2d(width, width * 2, 4, 2),
            nn.ReLU(),
            nn.Conv2d(width * 2, width * 2, 3),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.value = nn.Sequential(nn.Linear(width * 98, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.advantage = nn.Sequential(
            nn.Linear(width * 98, hidden), nn.ReLU(), nn.Linear(hidden, actions)
        )

    def forward(self, frames):
        x = self.features(frames.float() / 255)
        a = self.advantage(x)
        return self.value(x) + a - a.mean(1, keepdim=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--replay", type=int, default=20_000)
    parser.add_argument("--frames", type=int, default=900)
    parser.add_argument("--warmup", type=int, default=300)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--train-every", type=int, default=4)
    parser.add_argument("--sync-every", type=int, default=200)
    parser.add_argument("--width", type=int, default=64)
    args = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    game, memory = CatchGame(0), Replay(args.replay, device)
    online, target = Dueling(width=args.width).to(device), Dueling(width=args.width).to(device)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4, eps=1.5e-4)
    stack = game.reset().expand(4, 84, 84).to(device)
    score, episodes, losses = 0.0, 0, []
    frame = 0
    while frame < args.frames:
        epsilon = max(0.05, 1 - frame / (args.frames / 2))
        if random.random() < epsilon:
            action = random.randrange(3)
        else:
            with torch.no_grad():
                action = online(stack[None]).argmax(1).item()
        picture, reward, done = game.step(action)
        memory.push(stack, action, reward, done)
        stack = torch.cat([stack[1:], picture[None].to(device)])
        score += reward
        episodes += done
        frame += 1
        if frame >= args.warmup and frame % args.train_every == 0:
            index, weight, (s, a, r, s2, d) = memory.sample(
                args.batch, beta=0.4 + 0.6 * frame / args.frames
            )
            with torch.no_grad():
                best = online(s2).argmax(1, keepdim=True)
                goal = r + 0.99 * (1 - d) * target(s2).gather(1, best).squeeze(1)
            guess = online(s).gather(1, a[:, None]).squeeze(1)
            loss = (weight * F.smooth_l1_loss(guess, goal, reduction="none")).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(online.parameters(), 10)
            optimizer.step()
            memory.priority[index] = (goal - guess).detach().abs() + 1e-3
            losses.append(loss.item())
        if frame % args.sync_every == 0:
            target.load_state_dict(online.state_dict())
            recent = sum(losses[-20:]) / max(1, len(losses[-20:]))
            print(f"frame {frame}: {episodes} games, score {score:.0f}, loss {recent:.4f}")
    torch.save(online.state_dict(), "catch.pt")


if __name__ == "__main__":
    main()
