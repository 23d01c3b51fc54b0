"""Physics-informed network for Burgers' equation: Adam first, L-BFGS to finish."""

import math
import time

import torch
from torch import nn

N_INSIDE, N_EDGE = 50_000, 4_000
WIDTH, DEPTH = 200, 8
ADAM_STEPS, LBFGS_ITERS = 60, 12
NU = 0.01 / math.pi

torch.manual_seed(1234)
device = torch.device("cuda")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Linear(2, WIDTH), nn.Tanh()]
        for _ in range(DEPTH - 1):
            layers += [nn.Linear(WIDTH, WIDTH), nn.Tanh()]
        layers.append(nn.Linear(WIDTH, 1))
        self.net = nn.Sequential(*layers)
        for m in self.net:
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, x, t):
        return self.net(torch.cat([x, t], dim=1))


def grad(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def residual(net, x, t):
    u = net(x, t)
    u_x, u_t = torch.autograd.grad(u, (x, t), torch.ones_like(u), create_graph=True)
    u_xx = grad(u_x, x)
    return u_t + u * u_x - NU * u_xx


def sample_points():
    x = (2 * torch.rand(N_INSIDE, 1, device=device) - 1).requires_grad_()
    t = torch.rand(N_INSIDE, 1, device=device).requires_grad_()
    return x, t


def edges():
    x0 = 2 * torch.rand(N_EDGE, 1, device=device) - 1
    u0 = -torch.sin(math.pi * x0)
    tb = torch.rand(N_EDGE, 1, device=device)
    side = torch.where(torch.rand(N_EDGE, 1, device=device) < 0.5, -1.0, 1.0)
    x = torch.cat([x0, side])
    t = torch.cat([torch.zeros_like(x0), tb])
    u = torch.cat([u0, torch.zeros_like(tb)])
    return x, t, u


def main():
    net = Net().to(device)
    xe, te, ue = edges()

    def total_loss(x, t):
        f = residual(net, x, t)
        return (f**2).mean() + ((net(xe, te) - ue) ** 2).mean()

    adam = torch.optim.NAdam(net.parameters(), lr=1e-3)
    start = time.time()
    for step in range(ADAM_STEPS):
        if step % 20 == 0:
            x, t = sample_points()
        adam.zero_grad()
        loss = total_loss(x, t)
        loss.backward()
        adam.step()
        if step % 10 == 0:
            print(f"adam {step:4d} loss {loss.item():.5f} ({time.time() - start:.1f}s)")

    lbfgs = torch.optim.LBFGS(
        net.parameters(),
        lr=1.0,
        max_iter=LBFGS_ITERS,
        history_size=20,
        line_search_fn="strong_wolfe",
    )
    calls = 0

    def closure():
        nonlocal calls
        lbfgs.zero_grad()
        loss = total_loss(x, t)
        loss.backward()
        calls += 1
        if calls % 5 == 0:
            print(f"lbfgs {calls:4d} loss {loss.item():.5f}")
        return loss

    lbfgs.step(closure)

    with torch.no_grad():
        gx, gt = torch.meshgrid(
            torch.linspace(-1, 1, 512), torch.linspace(0, 1, 200), indexing="ij"
        )
        u = net(gx.reshape(-1, 1).to(device), gt.reshape(-1, 1).to(device)).view(512, 200)
    print("solution range", u.min().item(), u.max().item())
    torch.save({"net": net.state_dict(), "grid": u.cpu()}, "burgers.pt")


if __name__ == "__main__":
    main()
