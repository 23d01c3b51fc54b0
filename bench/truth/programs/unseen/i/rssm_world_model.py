"""Dreamer-like agent on a toy pixel world: RSSM world model, imagined rollouts for actor and critic, three optimizers."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Independent, Normal, kl_divergence


class DotWorld:
    """n agents push a dot around a 64x64 screen; reward for being near the middle."""

    def __init__(self, n, device):
        self.n, self.device = n, device
        grid = torch.linspace(-1, 1, 64, device=device)
        self.yy, self.xx = torch.meshgrid(grid, grid, indexing="ij")
        self.pos = torch.rand(n, 2, device=device) * 2 - 1

    def render(self):
        d = (self.xx - self.pos[:, 0, None, None]) ** 2 + (
            self.yy - self.pos[:, 1, None, None]
        ) ** 2
        return torch.exp(-d * 30)[:, None].expand(-1, 3, -1, -1) - 0.5

    def step(self, action):
        self.pos = (self.pos + 0.1 * action).clamp(-1, 1)
        return self.render(), 1 - self.pos.norm(dim=1)


def mlp(i, o, h=400):
    return nn.Sequential(nn.Linear(i, h), nn.ELU(), nn.Linear(h, h), nn.ELU(), nn.Linear(h, o))


def gauss(stats):
    mean, std = stats.chunk(2, -1)
    return Independent(Normal(mean, F.softplus(std) + 0.1), 1)


class WorldModel(nn.Module):
    def __init__(self, action=2, deter=512, stoch=48, depth=48):
        super().__init__()
        self.deter, self.stoch = deter, stoch
        d = depth
        self.encoder = nn.Sequential(
            nn.Conv2d(3, d, 4, 2),
            nn.ELU(),
            nn.Conv2d(d, 2 * d, 4, 2),
            nn.ELU(),
            nn.Conv2d(2 * d, 4 * d, 4, 2),
            nn.ELU(),
            nn.Conv2d(4 * d, 8 * d, 4, 2),
            nn.ELU(),
            nn.Flatten(),
        )
        embed = 8 * d * 4
        self.pre = nn.Sequential(nn.Linear(stoch + action, 400), nn.ELU())
        self.cell = nn.GRUCell(400, deter)
        self.prior, self.post = mlp(deter, 2 * stoch), mlp(deter + embed, 2 * stoch)
        self.fc = nn.Linear(deter + stoch, 32 * d)
        self.decoder = nn.Sequential(
            nn.Unflatten(1, (32 * d, 1, 1)),
            nn.ConvTranspose2d(32 * d, 4 * d, 5, 2),
            nn.ELU(),
            nn.ConvTranspose2d(4 * d, 2 * d, 5, 2),
            nn.ELU(),
            nn.ConvTranspose2d(2 * d, d, 6, 2),
            nn.ELU(),
            nn.ConvTranspose2d(d, 3, 6, 2),
        )
        self.reward = mlp(deter + stoch, 1)

    def start(self, n, device):
        return torch.zeros(n, self.deter, device=device), torch.zeros(n, self.stoch, device=device)

    def imagine(self, state, action):
        h = self.cell(self.pre(torch.cat([state[1], action], -1)), state[0])
        prior = gauss(self.prior(h))
        return (h, prior.rsample()), prior

    def observe(self, state, action, embed):
        (h, _), prior = self.imagine(state, action)
        post = gauss(self.post(torch.cat([h, embed], -1)))
        return (h, post.rsample()), prior, post


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--envs", type=int, default=50)
    p.add_argument("--length", type=int, default=50)
    p.add_argument("--horizon", type=int, default=15)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--updates", type=int, default=3)
    args = p.parse_args()
    torch.manual_seed(13)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wm = WorldModel().to(device)
    feat = wm.deter + wm.stoch
    actor, critic = mlp(feat, 4).to(device), mlp(feat, 1).to(device)
    opt_m = torch.optim.Adam(wm.parameters(), 6e-4, eps=1e-5)
    opt_a = torch.optim.Adam(actor.parameters(), 8e-5, eps=1e-5)
    opt_c = torch.optim.Adam(critic.parameters(), 8e-5, eps=1e-5)
    act = lambda f: torch.tanh(gauss(actor(f)).rsample())
    replay = []
    for rnd in range(args.rounds):
        with torch.no_grad():
            env, state = DotWorld(args.envs, device), wm.start(args.envs, device)
            obs, action = env.render(), torch.zeros(args.envs, 2, device=device)
            frames, actions, rewards = [], [], []
            for _ in range(args.length):
                state, _, _ = wm.observe(state, action, wm.encoder(obs))
                frames.append(obs.half().cpu())
                actions.append(action)
                action = act(torch.cat(state, -1))
                obs, r = env.step(action)
                rewards.append(r)
            replay.append((torch.stack(frames), torch.stack(actions), torch.stack(rewards)))
        print(f"round {rnd} return {replay[-1][2].sum(0).mean().item():.2f}")
        for _ in range(args.updates):
            frames, actions, rewards = replay[int(torch.randint(0, len(replay), ()))]
            frames = frames.to(device).float()
            embed = wm.encoder(frames.flatten(0, 1)).view(args.length, args.envs, -1)
            state, feats, kl = wm.start(args.envs, device), [], 0.0
            for t in range(args.length):
                state, prior, post = wm.observe(state, actions[t], embed[t])
                feats.append(torch.cat(state, -1))
                kl = kl + kl_divergence(post, prior).mean().clamp(min=3.0)
            f = torch.stack(feats).flatten(0, 1)
            recon = wm.decoder(wm.fc(f))
            img = (recon - frames.flatten(0, 1)).pow(2).sum((1, 2, 3)).mean() / 2
            rew = F.mse_loss(wm.reward(f[: -args.envs]).squeeze(1), rewards[:-1].flatten())
            model_loss = img + rew + kl / args.length
            opt_m.zero_grad()
            model_loss.backward()
            nn.utils.clip_grad_norm_(wm.parameters(), 100.0)
            opt_m.step()

            f = f.detach()
            s, traj = (f[:, : wm.deter], f[:, wm.deter :]), []
            for _ in range(args.horizon):
                s, _ = wm.imagine(s, act(torch.cat(s, -1).detach()))
                traj.append(torch.cat(s, -1))
            traj = torch.stack(traj)
            reward, value = wm.reward(traj).squeeze(-1), critic(traj).squeeze(-1)
            ret, returns = value[-1], []
            for t in reversed(range(args.horizon - 1)):
                ret = reward[t] + 0.99 * (0.05 * value[t + 1] + 0.95 * ret)
                returns.append(ret)
            returns = torch.stack(returns[::-1])
            opt_a.zero_grad()
            (-returns.mean()).backward()
            nn.utils.clip_grad_norm_(actor.parameters(), 100.0)
            opt_a.step()
            v = critic(traj[:-1].detach()).squeeze(-1)
            critic_loss = F.mse_loss(v, returns.detach())
            opt_c.zero_grad()
            critic_loss.backward()
            nn.utils.clip_grad_norm_(critic.parameters(), 100.0)
            opt_c.step()
        print(
            f"  model {model_loss.item():.2f} imagined return {returns.mean().item():.3f} critic {critic_loss.item():.4f}"
        )
        torch.save(
            {"wm": wm.state_dict(), "actor": actor.state_dict(), "critic": critic.state_dict()},
            "dreamer.pt",
        )


if __name__ == "__main__":
    main()
