"""Barlow Twins pre-training on tissue patches (ResNet-50, LARS by hand), then a linear probe."""

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models import resnet50
from torchvision.transforms import v2

torch.manual_seed(40)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BATCH, PROBE_BATCH, SIZE, STEPS = 128, 250, 160, 10
PROJ, LAMBDA = 4096, 0.0051


class LARS(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.9, weight_decay=1e-6, eta=0.001):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, eta=eta))

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is None:
                    continue
                d = p.grad
                if p.ndim > 1:
                    d = d.add(p, alpha=g["weight_decay"])
                    pn, un = p.norm(), d.norm()
                    q = torch.where((pn > 0) & (un > 0), g["eta"] * pn / un, torch.ones_like(pn))
                    d = d.mul(q)
                st = self.state[p]
                if "mu" not in st:
                    st["mu"] = torch.zeros_like(p)
                st["mu"].mul_(g["momentum"]).add_(d)
                p.add_(st["mu"], alpha=-g["lr"])


class BarlowTwins(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = resnet50(weights=None, zero_init_residual=True)
        self.backbone.fc = nn.Identity()
        self.projector = nn.Sequential(
            nn.Linear(2048, PROJ, bias=False),
            nn.BatchNorm1d(PROJ),
            nn.ReLU(inplace=True),
            nn.Linear(PROJ, PROJ, bias=False),
            nn.BatchNorm1d(PROJ),
            nn.ReLU(inplace=True),
            nn.Linear(PROJ, PROJ, bias=False),
        )
        self.bn = nn.BatchNorm1d(PROJ, affine=False)

    def forward(self, a, b):
        za, zb = self.projector(self.backbone(a)), self.projector(self.backbone(b))
        c = self.bn(za).T @ self.bn(zb) / len(a)
        on = (c.diagonal() - 1).pow(2).sum()
        off = c.pow(2).sum() - c.diagonal().pow(2).sum()
        return on + LAMBDA * off


augment = v2.Compose(
    [
        v2.RandomResizedCrop(SIZE, scale=(0.3, 1.0), antialias=True),
        v2.RandomHorizontalFlip(),
        v2.RandomVerticalFlip(),
        v2.GaussianBlur(9, (0.1, 2.0)),
    ]
)
patches = torch.randint(0, 256, (600, 3, 192, 192), dtype=torch.uint8)
kinds = torch.randint(0, 9, (600,))


def view(x):
    return (augment(x).float() / 255 - 0.5) / 0.25


model = BarlowTwins().to(DEVICE)
weights = [p for p in model.parameters() if p.ndim > 1]
biases = [p for p in model.parameters() if p.ndim <= 1]
opt = LARS(
    [{"params": weights, "lr": 0.2 * BATCH / 256}, {"params": biases, "lr": 0.0048 * BATCH / 256}],
    lr=0.2,
)
scaler = torch.amp.GradScaler(enabled=DEVICE.type == "cuda")
for step in range(STEPS):
    x = patches[torch.randint(0, len(patches), (BATCH,))].to(DEVICE)
    a, b = view(x), view(x)
    opt.zero_grad()
    with torch.autocast(
        DEVICE.type, dtype=torch.float16 if DEVICE.type == "cuda" else torch.bfloat16
    ):
        loss = model(a, b)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    if step % 3 == 0:
        print(f"step {step} loss {loss.item():.1f}")
torch.save(model.backbone.state_dict(), "tissue_backbone.pt")

model.eval()
feats = []
with torch.no_grad():
    for x in patches.split(PROBE_BATCH):
        x = (x.to(DEVICE).float() / 255 - 0.5) / 0.25
        feats.append(model.backbone(x))
feats = torch.cat(feats)
probe = nn.Linear(2048, 9).to(DEVICE)
popt = torch.optim.LBFGS(probe.parameters(), max_iter=20)
target = kinds.to(DEVICE)


def closure():
    popt.zero_grad()
    loss = F.cross_entropy(probe(feats), target)
    loss.backward()
    return loss


popt.step(closure)
print("probe accuracy", (probe(feats).argmax(1) == target).float().mean().item())
