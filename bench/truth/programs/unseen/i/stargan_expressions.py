# StarGAN-like multi-domain translation of faces: one generator, critic with gradient penalty, n_critic = 3.
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZE, DOMAINS, BATCH, N_CRITIC, STEPS = 128, 5, 24, 3, 12
LAMBDA_CLS, LAMBDA_REC, LAMBDA_GP = 1.0, 10.0, 10.0
torch.manual_seed(1234)


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(c, c, 3, 1, 1, bias=False),
            nn.InstanceNorm2d(c, affine=True, track_running_stats=True),
            nn.ReLU(inplace=True),
            nn.Conv2d(c, c, 3, 1, 1, bias=False),
            nn.InstanceNorm2d(c, affine=True, track_running_stats=True),
        )

    def forward(self, x):
        return x + self.main(x)


class Generator(nn.Module):
    def __init__(self, dim=64, repeat=6):
        super().__init__()
        norm = lambda c: nn.InstanceNorm2d(c, affine=True, track_running_stats=True)
        layers = [
            nn.Conv2d(3 + DOMAINS, dim, 7, 1, 3, bias=False),
            norm(dim),
            nn.ReLU(inplace=True),
        ]
        for _ in range(2):
            layers += [
                nn.Conv2d(dim, dim * 2, 4, 2, 1, bias=False),
                norm(dim * 2),
                nn.ReLU(inplace=True),
            ]
            dim *= 2
        layers += [Residual(dim) for _ in range(repeat)]
        for _ in range(2):
            layers += [
                nn.ConvTranspose2d(dim, dim // 2, 4, 2, 1, bias=False),
                norm(dim // 2),
                nn.ReLU(inplace=True),
            ]
            dim //= 2
        layers += [nn.Conv2d(dim, 3, 7, 1, 3, bias=False), nn.Tanh()]
        self.main = nn.Sequential(*layers)

    def forward(self, x, c):
        c = c[:, :, None, None].expand(-1, -1, x.size(2), x.size(3))
        return self.main(torch.cat([x, c], 1))


class Critic(nn.Module):
    def __init__(self, dim=64, repeat=6):
        super().__init__()
        layers = [nn.Conv2d(3, dim, 4, 2, 1), nn.LeakyReLU(0.01)]
        for _ in range(1, repeat):
            layers += [nn.Conv2d(dim, dim * 2, 4, 2, 1), nn.LeakyReLU(0.01)]
            dim *= 2
        self.main = nn.Sequential(*layers)
        self.src = nn.Conv2d(dim, 1, 3, 1, 1, bias=False)
        self.cls = nn.Conv2d(dim, DOMAINS, SIZE // 2**repeat, bias=False)

    def forward(self, x):
        h = self.main(x)
        return self.src(h), self.cls(h).flatten(1)


def gradient_penalty(critic, real, fake):
    a = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    mix = (a * real + (1 - a) * fake).requires_grad_(True)
    out, _ = critic(mix)
    (grad,) = torch.autograd.grad(out.sum(), mix, create_graph=True)
    return ((grad.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


loader = DataLoader(
    TensorDataset(
        torch.rand(BATCH * 6 + 5, 3, SIZE, SIZE) * 2 - 1,
        torch.randint(0, DOMAINS, (BATCH * 6 + 5,)),
    ),
    BATCH,
    shuffle=True,
    drop_last=True,
)
G, D = Generator().to(DEVICE), Critic().to(DEVICE)
g_opt = torch.optim.Adam(G.parameters(), 1e-4, (0.5, 0.999))
d_opt = torch.optim.Adam(D.parameters(), 1e-4, (0.5, 0.999))
test_x = torch.rand(10, 3, SIZE, SIZE, device=DEVICE) * 2 - 1

it = iter(loader)
for step in range(STEPS):
    try:
        x, y = next(it)
    except StopIteration:
        it = iter(loader)
        x, y = next(it)
    x, y = x.to(DEVICE), y.to(DEVICE)
    target = y[torch.randperm(len(y), device=DEVICE)]
    c_org, c_trg = F.one_hot(y, DOMAINS).float(), F.one_hot(target, DOMAINS).float()

    src, cls = D(x)
    fake = G(x, c_trg).detach()
    src_f, _ = D(fake)
    d_loss = (
        src_f.mean()
        - src.mean()
        + LAMBDA_CLS * F.cross_entropy(cls, y)
        + LAMBDA_GP * gradient_penalty(D, x, fake)
    )
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()

    if (step + 1) % N_CRITIC == 0:
        fake = G(x, c_trg)
        src_f, cls_f = D(fake)
        rec = G(fake, c_org)
        g_loss = (
            -src_f.mean()
            + LAMBDA_CLS * F.cross_entropy(cls_f, target)
            + LAMBDA_REC * (x - rec).abs().mean()
        )
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        print(f"step {step} D {d_loss.item():.3f} G {g_loss.item():.3f}")

    if (step + 1) % 6 == 0:
        with torch.no_grad():
            rows = [test_x.cpu()]
            for d in range(DOMAINS):
                c = F.one_hot(torch.full((10,), d, device=DEVICE), DOMAINS).float()
                rows.append(G(test_x, c).cpu())
        torch.save(torch.cat(rows, 3), f"translated_{step + 1}.pt")
        torch.save({"G": G.state_dict(), "D": D.state_dict()}, "stargan.pt")
