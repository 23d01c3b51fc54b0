"""A WGAN with gradient penalty: two optimizers, the generator steps once for five steps of the critic."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--epochs", type=int, default=1)
args = parser.parse_args()
device = torch.device("cuda")


def up(i, o):
    return nn.Sequential(nn.ConvTranspose2d(i, o, 4, 2, 1), nn.BatchNorm2d(o), nn.ReLU(True))


def down(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 4, 2, 1), nn.InstanceNorm2d(o, affine=True), nn.LeakyReLU(0.2)
    )


generator = nn.Sequential(
    nn.ConvTranspose2d(128, 512, 4),
    nn.ReLU(True),
    up(512, 256),
    up(256, 128),
    up(128, 64),
    nn.ConvTranspose2d(64, 3, 4, 2, 1),
    nn.Tanh(),
).to(device)
critic = nn.Sequential(
    nn.Conv2d(3, 64, 4, 2, 1),
    nn.LeakyReLU(0.2),
    down(64, 128),
    down(128, 256),
    down(256, 512),
    nn.Conv2d(512, 1, 4),
).to(device)
of_critic = torch.optim.Adam(critic.parameters(), 1e-4, betas=(0.0, 0.9))
of_generator = torch.optim.Adam(generator.parameters(), 1e-4, betas=(0.0, 0.9))
loader = DataLoader(
    TensorDataset(torch.rand(2000, 3, 64, 64)),
    args.batch,
    shuffle=True,
    num_workers=2,
    pin_memory=True,
)


def penalty(real, fake):
    mix = torch.rand(len(real), 1, 1, 1, device=device)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    score = critic(between)
    (gradient,) = torch.autograd.grad(score, between, torch.ones_like(score), create_graph=True)
    return ((gradient.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


for epoch in range(args.epochs):
    for number, (real,) in enumerate(loader):
        real = real.to(device, non_blocking=True)
        noise = torch.randn(len(real), 128, 1, 1, device=device)
        fake = generator(noise).detach()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
        of_critic.zero_grad()
        loss.backward()
        of_critic.step()
        if number % 5 == 4:
            of_generator.zero_grad()
            cost = -critic(generator(noise)).mean()
            cost.backward()
            of_generator.step()
            print(f"{epoch} {number} critic {loss:.3f} generator {cost.item():.3f}")
    generator.eval()
    with torch.no_grad():
        samples = generator(torch.randn(512, 128, 1, 1, device=device)).cpu().numpy()
    generator.train()
    torch.save({"generator": generator.state_dict(), "critic": critic.state_dict()}, "wgan.pt")
print(samples.shape)
