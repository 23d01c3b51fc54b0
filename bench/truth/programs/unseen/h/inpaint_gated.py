"""Free-form inpainting: coarse and fine gated-convolution networks with an SN-PatchGAN (bf16)."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import spectral_norm
from torch.utils.data import DataLoader, Dataset

IMAGE, BATCH, EPOCHS, COUNT, WIDTH = 256, 14, 2, 170, 48
WORKERS = 2
torch.manual_seed(31)
device = torch.device("cuda")


class Holes(Dataset):
    """Pictures with rectangles knocked out of them."""

    def __init__(self, n):
        self.n = n
        self.pool = torch.rand(30, 3, IMAGE, IMAGE) * 2 - 1

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        mask = torch.zeros(1, IMAGE, IMAGE)
        for _ in range(int(torch.randint(1, 5, ()))):
            h, w = torch.randint(IMAGE // 8, IMAGE // 2, (2,)).tolist()
            t, l = int(torch.randint(0, IMAGE - h, ())), int(torch.randint(0, IMAGE - w, ()))
            mask[:, t : t + h, l : l + w] = 1
        return self.pool[i % 30], mask


class Gated(nn.Module):
    def __init__(self, cin, cout, k=3, stride=1, dilation=1, up=False):
        super().__init__()
        self.conv = nn.Conv2d(cin, 2 * cout, k, stride, dilation * (k - 1) // 2, dilation)
        self.up = up

    def forward(self, x):
        if self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
        value, gate = self.conv(x).chunk(2, dim=1)
        return F.elu(value) * torch.sigmoid(gate)


def gated_net(cin, c):
    return nn.Sequential(
        Gated(cin, c, 5),
        Gated(c, 2 * c, stride=2),
        Gated(2 * c, 2 * c),
        Gated(2 * c, 4 * c, stride=2),
        Gated(4 * c, 4 * c),
        *[Gated(4 * c, 4 * c, dilation=d) for d in (2, 4, 8, 16)],
        Gated(4 * c, 4 * c),
        Gated(4 * c, 2 * c, up=True),
        Gated(2 * c, 2 * c),
        Gated(2 * c, c, up=True),
        Gated(c, c // 2),
        nn.Conv2d(c // 2, 3, 3, padding=1),
    )


class Inpainter(nn.Module):
    def __init__(self, c=WIDTH):
        super().__init__()
        self.coarse, self.fine = gated_net(4, c), gated_net(4, c)

    def forward(self, image, mask):
        hole = image * (1 - mask)
        first = torch.tanh(self.coarse(torch.cat([hole, mask], 1)))
        mixed = first * mask + hole
        return first, torch.tanh(self.fine(torch.cat([mixed, mask], 1)))


class PatchCritic(nn.Sequential):
    def __init__(self, c=64):
        chans = [4, c, 2 * c, 4 * c, 4 * c, 4 * c]
        layers = []
        for a, b in zip(chans, chans[1:]):
            layers += [spectral_norm(nn.Conv2d(a, b, 5, stride=2, padding=2)), nn.LeakyReLU(0.2)]
        super().__init__(*layers)


@torch.no_grad()
def evaluate(net, loader):
    net.eval()
    total = count = 0
    for image, mask in loader:
        image, mask = image.to(device), mask.to(device)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            _, out = net(image, mask)
        total += ((out.float() - image).abs() * mask).sum().item()
        count += mask.sum().item() * 3
    net.train()
    return total / count


def main():
    loader = DataLoader(Holes(COUNT), BATCH, shuffle=True, num_workers=WORKERS, drop_last=True)
    val = DataLoader(Holes(40), 20)
    net, critic = Inpainter().to(device), PatchCritic().to(device)
    opt_g = torch.optim.Adam(net.parameters(), lr=1e-4, betas=(0.5, 0.9))
    opt_d = torch.optim.Adam(critic.parameters(), lr=4e-4, betas=(0.5, 0.9))
    for epoch in range(EPOCHS):
        for i, (image, mask) in enumerate(loader):
            image, mask = image.to(device), mask.to(device)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                first, out = net(image, mask)
                done = out * mask + image * (1 - mask)
                real = critic(torch.cat([image, mask], 1))
                fake = critic(torch.cat([done.detach(), mask], 1))
                loss_d = F.relu(1 - real).mean() + F.relu(1 + fake).mean()
            opt_d.zero_grad()
            loss_d.backward()
            opt_d.step()

            with torch.autocast("cuda", dtype=torch.bfloat16):
                adv = -critic(torch.cat([done, mask], 1)).mean()
                rec = F.l1_loss(first, image) + F.l1_loss(out, image)
                loss_g = rec + 0.1 * adv
            opt_g.zero_grad()
            loss_g.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 10.0)
            opt_g.step()
            if i % 4 == 0:
                print(
                    f"{epoch}:{i} critic {loss_d.item():.3f} rec {rec.item():.3f} adv {adv.item():.3f}"
                )
        print(f"epoch {epoch}: hole L1 {evaluate(net, val):.4f}")
        torch.save({"net": net.state_dict(), "critic": critic.state_dict()}, "inpaint.pt")


if __name__ == "__main__":
    main()
