"""Offline reinforcement learning with the Decision Transformer: trajectories from a linear system, return conditioning, rollouts after training."""

import torch
import torch.nn.functional as F
from transformers import DecisionTransformerConfig, DecisionTransformerModel

STATES, ACTIONS = 48, 12
WINDOW = 120
EPISODE = 300
BATCH = 48
STEPS = 30
WIDTH, LAYERS, HEADS = 768, 8, 12


class LinearWorld:
    """s' = A s + B a + noise, reward for staying near the origin."""

    def __init__(self, device):
        g = torch.Generator().manual_seed(1)
        a = torch.randn(STATES, STATES, generator=g)
        self.A = (0.97 * torch.linalg.qr(a)[0]).to(device)
        self.B = (0.2 * torch.randn(ACTIONS, STATES, generator=g)).to(device)
        self.device = device

    def start(self, n):
        return torch.randn(n, STATES, device=self.device)

    def step(self, s, a):
        s = s @ self.A + a @ self.B + 0.02 * torch.randn_like(s)
        return s, -s.square().mean(1)


@torch.no_grad()
def collect(world, n):
    gain = 0.3 * torch.randn(n, STATES, ACTIONS, device=world.device)
    s, states, actions, rewards = world.start(n), [], [], []
    for _ in range(EPISODE):
        a = torch.tanh(torch.einsum("ns,nsa->na", s, gain))
        states.append(s)
        actions.append(a)
        s, r = world.step(s, a)
        rewards.append(r)
    rewards = torch.stack(rewards, 1)
    togo = rewards.flip(1).cumsum(1).flip(1)
    return (
        torch.stack(states, 1),
        torch.stack(actions, 1),
        togo[..., None] / 100,
        rewards,
    )


def sample(data, generator):
    states, actions, togo, _ = data
    who = torch.randint(0, len(states), (BATCH,), generator=generator)
    at = torch.randint(0, EPISODE - WINDOW + 1, (BATCH,), generator=generator)
    index = at[:, None] + torch.arange(WINDOW)
    rows = who[:, None]
    return (
        states[rows, index],
        actions[rows, index],
        togo[rows, index],
        index.to(states.device),
    )


def main():
    torch.manual_seed(88)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator().manual_seed(89)
    world = LinearWorld(device)
    data = collect(world, 256)
    model = DecisionTransformerModel(
        DecisionTransformerConfig(
            state_dim=STATES,
            act_dim=ACTIONS,
            hidden_size=WIDTH,
            n_layer=LAYERS,
            n_head=HEADS,
            max_ep_len=EPISODE,
            n_positions=3 * WINDOW,
        )
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 10))
    model.train()
    for step in range(STEPS):
        states, actions, togo, times = sample(data, generator)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            out = model(
                states=states,
                actions=actions,
                rewards=torch.zeros_like(togo),
                returns_to_go=togo,
                timesteps=times,
                attention_mask=torch.ones(BATCH, WINDOW, device=device),
            )
        loss = F.mse_loss(out.action_preds.float(), actions)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        schedule.step()
        if step % 10 == 0:
            print(f"step {step}: action error {loss.item():.5f}")

    model.eval()
    n, horizon = 64, 40
    with torch.no_grad():
        s = world.start(n)
        states = s[:, None]
        actions = torch.zeros(n, 1, ACTIONS, device=device)
        togo = torch.full((n, 1, 1), -0.5, device=device)
        total = torch.zeros(n, device=device)
        for t in range(horizon):
            steps = torch.arange(t + 1, device=device).expand(n, -1)
            out = model(
                states=states,
                actions=actions,
                rewards=torch.zeros_like(togo),
                returns_to_go=togo,
                timesteps=steps,
                attention_mask=torch.ones(n, t + 1, device=device),
            )
            a = out.action_preds[:, -1]
            actions[:, -1] = a
            s, r = world.step(s, a)
            total += r
            states = torch.cat([states, s[:, None]], 1)
            actions = torch.cat([actions, torch.zeros(n, 1, ACTIONS, device=device)], 1)
            togo = torch.cat([togo, togo[:, -1:] - r[:, None, None] / 100], 1)
    print("mean return", total.mean().item())


if __name__ == "__main__":
    main()
