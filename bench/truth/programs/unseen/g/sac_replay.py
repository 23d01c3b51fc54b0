"""Soft actor-critic for a chain of joints; many environments stepped together on the GPU, replay buffer on the GPU."""

import os
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal


@dataclass
class Args:
    joints: int = 48
    num_envs: int = 512
    episode: int = 200
    buffer_size: int = 1_500_000
    hidden: int = 1024
    batch_size: int = 8192
    total_iterations: int = 900
    learning_starts: int = 30
    gamma: float = 0.99
    tau: float = 0.005
    policy_lr: float = 3e-4
    q_lr: float = 1e-3
    policy_frequency: int = 2
    eval_every: int = 300
    device: str = "cuda"
    seed: int = 1


class ArmEnv:
    """Joints are to reach targets; torque moves them, and neighbours pull on each other."""

    def __init__(self, n, joints, episode, device):
        self.n, self.j, self.episode, self.device = n, joints, episode, device
        self.obs_dim, self.act_dim = 4 * joints, joints
        self.t = torch.zeros(n, dtype=torch.long, device=device)
        self.angle, self.speed, self.goal = (
            torch.zeros(n, joints, device=device) for _ in range(3)
        )
        self._reset(torch.ones(n, dtype=torch.bool, device=device))

    def _reset(self, mask):
        k = int(mask.sum())
        if k == 0:
            return
        self.angle[mask] = torch.rand(k, self.j, device=self.device) * 2 - 1
        self.goal[mask] = torch.rand(k, self.j, device=self.device) * 2 - 1
        self.speed[mask] = 0
        self.t[mask] = torch.randint(0, self.episode // 4, (k,), device=self.device)

    def obs(self):
        return torch.cat([self.angle.sin(), self.angle.cos(), self.speed, self.goal], 1)

    def step(self, action):
        pull = torch.roll(self.angle, 1, 1) + torch.roll(self.angle, -1, 1) - 2 * self.angle
        self.speed = 0.95 * self.speed + 0.05 * action + 0.01 * pull
        self.angle = self.angle + self.speed
        self.t += 1
        reward = -(self.angle - self.goal).pow(2).mean(1) - 0.01 * action.pow(2).mean(1)
        done = self.t >= self.episode
        next_obs = self.obs()
        self._reset(done)
        return self.obs(), next_obs, reward, done


class ReplayBuffer:
    def __init__(self, size, obs_dim, act_dim, device):
        self.size, self.device = size, device
        self.obs = torch.zeros(size, obs_dim, device=device)
        self.next_obs = torch.zeros(size, obs_dim, device=device)
        self.actions = torch.zeros(size, act_dim, device=device)
        self.rewards = torch.zeros(size, device=device)
        self.dones = torch.zeros(size, device=device)
        self.pos, self.full = 0, False

    def add(self, obs, next_obs, actions, rewards, dones):
        n = len(obs)
        idx = (torch.arange(n, device=self.device) + self.pos) % self.size
        self.obs[idx], self.next_obs[idx], self.actions[idx] = obs, next_obs, actions
        self.rewards[idx], self.dones[idx] = rewards, dones.float()
        self.full = self.full or self.pos + n >= self.size
        self.pos = (self.pos + n) % self.size

    def sample(self, batch):
        top = self.size if self.full else self.pos
        idx = torch.randint(0, top, (batch,), device=self.device)
        return (
            self.obs[idx],
            self.next_obs[idx],
            self.actions[idx],
            self.rewards[idx],
            self.dones[idx],
        )


class SoftQNetwork(nn.Module):
    def __init__(self, obs, act, hidden):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = (
            nn.Linear(obs + act, hidden),
            nn.Linear(hidden, hidden),
            nn.Linear(hidden, 1),
        )

    def forward(self, x, a):
        x = F.relu(self.fc1(torch.cat([x, a], 1)))
        return self.fc3(F.relu(self.fc2(x)))


class Actor(nn.Module):
    def __init__(self, obs, act, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(obs, hidden), nn.Linear(hidden, hidden)
        self.fc_mean, self.fc_logstd = nn.Linear(hidden, act), nn.Linear(hidden, act)

    def forward(self, x):
        x = F.relu(self.fc2(F.relu(self.fc1(x))))
        log_std = torch.tanh(self.fc_logstd(x))
        return self.fc_mean(x), -5 + 0.5 * 7 * (log_std + 1)

    def get_action(self, x):
        mean, log_std = self(x)
        normal = Normal(mean, log_std.exp())
        x_t = normal.rsample()
        y_t = torch.tanh(x_t)
        log_prob = normal.log_prob(x_t) - torch.log(1 - y_t.pow(2) + 1e-6)
        return y_t, log_prob.sum(1, keepdim=True), torch.tanh(mean)


@torch.no_grad()
def evaluate(actor, args, device):
    env = ArmEnv(64, args.joints, args.episode, device)
    obs, total = env.obs(), 0.0
    for _ in range(100):
        obs, _, r, _ = env.step(actor.get_action(obs)[2])
        total += r.mean().item()
    return total


def main():
    args = Args()
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    env = ArmEnv(args.num_envs, args.joints, args.episode, device)
    actor = Actor(env.obs_dim, env.act_dim, args.hidden).to(device)
    qf1, qf2, qf1_target, qf2_target = (
        SoftQNetwork(env.obs_dim, env.act_dim, args.hidden).to(device) for _ in range(4)
    )
    qf1_target.load_state_dict(qf1.state_dict())
    qf2_target.load_state_dict(qf2.state_dict())
    q_optimizer = torch.optim.Adam(list(qf1.parameters()) + list(qf2.parameters()), lr=args.q_lr)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=args.policy_lr)
    target_entropy = -float(env.act_dim)
    log_alpha = torch.zeros(1, requires_grad=True, device=device)
    a_optimizer = torch.optim.Adam([log_alpha], lr=args.q_lr)
    alpha = log_alpha.exp().item()
    rb = ReplayBuffer(args.buffer_size, env.obs_dim, env.act_dim, device)

    obs, start = env.obs(), time.time()
    for it in range(args.total_iterations):
        if it < args.learning_starts:
            actions = torch.rand(args.num_envs, env.act_dim, device=device) * 2 - 1
        else:
            with torch.no_grad():
                actions, _, _ = actor.get_action(obs)
        new_obs, real_next, rewards, dones = env.step(actions)
        rb.add(
            obs, real_next, actions, rewards, torch.zeros_like(rewards)
        )  # time limits are not terminal
        obs = new_obs
        if it < args.learning_starts:
            continue

        s, s2, a, r, d = rb.sample(args.batch_size)
        with torch.no_grad():
            a2, logp2, _ = actor.get_action(s2)
            min_q = torch.min(qf1_target(s2, a2), qf2_target(s2, a2)) - alpha * logp2
            target = r + (1 - d) * args.gamma * min_q.view(-1)
        q1, q2 = qf1(s, a).view(-1), qf2(s, a).view(-1)
        qf_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        q_optimizer.zero_grad()
        qf_loss.backward()
        q_optimizer.step()

        if it % args.policy_frequency == 0:
            for _ in range(args.policy_frequency):
                pi, log_pi, _ = actor.get_action(s)
                actor_loss = (alpha * log_pi - torch.min(qf1(s, pi), qf2(s, pi))).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()
                alpha_loss = (-log_alpha.exp() * (log_pi.detach() + target_entropy)).mean()
                a_optimizer.zero_grad()
                alpha_loss.backward()
                a_optimizer.step()
                alpha = log_alpha.exp().item()

        for net, tgt in ((qf1, qf1_target), (qf2, qf2_target)):
            for p, tp in zip(net.parameters(), tgt.parameters()):
                tp.data.copy_(args.tau * p.data + (1 - args.tau) * tp.data)

        if it % 100 == 0:
            print(
                f"it {it} qf_loss {qf_loss.item() / 2:.4f} q {q1.mean().item():.3f} alpha {alpha:.4f} "
                f"reward {rewards.mean().item():.4f} SPS {int(it * args.num_envs / (time.time() - start))}"
            )
        if it and it % args.eval_every == 0:
            print("evaluation return", round(evaluate(actor, args, device), 3))
            torch.save(
                {"actor": actor.state_dict(), "qf1": qf1.state_dict(), "qf2": qf2.state_dict()},
                "sac_latest.pt",
            )
    print("final return", round(evaluate(actor, args, device), 3))
    if os.path.exists("sac_latest.pt"):
        os.remove("sac_latest.pt")


if __name__ == "__main__":
    main()
