"""PPO on a vectorized point-mass task that lives on the GPU: rollouts, GAE, clipped updates, KL early stop."""

import argparse
import time

import torch
from torch import nn
from torch.distributions import Normal


class PointMass:
    """Thousands of balls that are to be pushed to a goal."""

    def __init__(self, envs, device, horizon=64):
        self.n, self.device, self.horizon = envs, device, horizon
        self.reset()

    def reset(self):
        self.position = torch.rand(self.n, 8, device=self.device) * 2 - 1
        self.velocity = torch.zeros(self.n, 8, device=self.device)
        self.goal = torch.rand(self.n, 8, device=self.device) * 2 - 1
        self.time = torch.randint(0, self.horizon, (self.n,), device=self.device)
        return self.observe()

    def observe(self):
        return torch.cat([self.position, self.velocity, self.goal, self.goal - self.position], -1)

    def step(self, action):
        self.velocity = 0.9 * self.velocity + 0.1 * action.clamp(-1, 1)
        self.position = self.position + 0.1 * self.velocity
        self.time += 1
        reward = -(self.goal - self.position).norm(dim=-1) - 0.01 * action.pow(2).sum(-1)
        done = self.time >= self.horizon
        fresh = torch.rand_like(self.position) * 2 - 1
        self.position = torch.where(done[:, None], fresh, self.position)
        self.velocity = torch.where(done[:, None], torch.zeros_like(self.velocity), self.velocity)
        self.time = torch.where(done, torch.zeros_like(self.time), self.time)
        return self.observe(), reward, done.float()


def layer_init(layer, std=2**0.5):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    def __init__(self, obs, act, hidden):
        super().__init__()

        def net(out, std):
            return nn.Sequential(
                layer_init(nn.Linear(obs, hidden)),
                nn.ELU(),
                layer_init(nn.Linear(hidden, hidden)),
                nn.ELU(),
                layer_init(nn.Linear(hidden, out), std),
            )

        self.critic, self.actor = net(1, 1.0), net(act, 0.01)
        self.logstd = nn.Parameter(torch.zeros(1, act))

    def act(self, obs, action=None):
        mean = self.actor(obs)
        dist = Normal(mean, self.logstd.expand_as(mean).exp())
        if action is None:
            action = dist.sample()
        return (
            action,
            dist.log_prob(action).sum(1),
            dist.entropy().sum(1),
            self.critic(obs).squeeze(-1),
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, default=8192)
    parser.add_argument("--rollout", type=int, default=32)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--target-kl", type=float, default=0.5)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env = PointMass(args.envs, device)
    agent = Agent(32, 8, args.hidden).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
    size = (args.rollout, args.envs)
    obs, actions = torch.zeros(*size, 32, device=device), torch.zeros(*size, 8, device=device)
    logprobs, rewards, dones, values = (torch.zeros(size, device=device) for _ in range(4))
    next_obs, next_done = env.reset(), torch.zeros(args.envs, device=device)
    for iteration in range(1, args.iterations + 1):
        start = time.time()
        for group in optimizer.param_groups:
            group["lr"] = 3e-4 * (1 - (iteration - 1) / args.iterations)
        for step in range(args.rollout):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                action, logprob, _, value = agent.act(next_obs)
            actions[step], logprobs[step], values[step] = action, logprob, value
            next_obs, rewards[step], next_done = env.step(action)
        with torch.no_grad():
            next_value = agent.critic(next_obs).squeeze(-1)
            advantages, last = torch.zeros_like(rewards), 0
            for t in reversed(range(args.rollout)):
                alive = 1.0 - (next_done if t == args.rollout - 1 else dones[t + 1])
                following = next_value if t == args.rollout - 1 else values[t + 1]
                delta = rewards[t] + 0.99 * following * alive - values[t]
                advantages[t] = last = delta + 0.99 * 0.95 * alive * last
            returns = advantages + values
        flat = [x.flatten(0, 1) for x in (obs, actions, logprobs, advantages, returns)]
        total = args.envs * args.rollout
        for _ in range(args.epochs):
            kls = []
            for index in torch.randperm(total, device=device).chunk(args.minibatches):
                o, a, old, adv, ret = (x[index] for x in flat)
                _, new, entropy, value = agent.act(o, a)
                ratio = (new - old).exp()
                with torch.no_grad():
                    kls.append(((ratio - 1) - (new - old)).mean())
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                policy = torch.max(-adv * ratio, -adv * ratio.clamp(0.8, 1.2)).mean()
                loss = policy - 0.005 * entropy.mean() + 0.5 * (value - ret).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
            if torch.stack(kls).mean().item() > args.target_kl:
                break
        sps = total / (time.time() - start)
        print(
            f"{iteration}: reward {rewards.mean().item():.3f} loss {loss.item():.3f} {sps:.0f} steps/s"
        )
    torch.save(agent.state_dict(), "agent.pt")


if __name__ == "__main__":
    main()
