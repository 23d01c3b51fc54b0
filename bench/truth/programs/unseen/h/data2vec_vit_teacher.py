"""Self-supervised ViT in the manner of data2vec: a student sees masked patches, an EMA teacher gives the targets."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

IMAGE, PATCH = 224, 14
DIM, DEPTH, HEADS = 512, 12, 8
TOP_K = 6
MASK_RATIO = 0.6
BATCH = 72
STEPS_PER_EPOCH = 14
EPOCHS = 2
PROBE_IMAGES = 200
CLASSES = 10
DEVICE = "cuda"


class Fractals(Dataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        label = int(torch.randint(CLASSES, (1,), generator=g))
        image = torch.zeros(1, 3, IMAGE, IMAGE)
        for octave in range(1, 5):
            side = 2**octave + label
            image += (
                F.interpolate(
                    torch.randn(1, 3, side, side, generator=g), (IMAGE, IMAGE), mode="bilinear"
                )
                / octave
            )
        return image[0], label


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attn = nn.MultiheadAttention(DIM, HEADS, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        h = self.n1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        y = self.mlp(self.n2(x))
        return x + y, y


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, DIM, PATCH, PATCH)
        self.places = nn.Parameter(torch.randn(1, (IMAGE // PATCH) ** 2, DIM) * 0.02)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, DIM))
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))

    def forward(self, images, mask=None):
        x = self.patches(images).flatten(2).transpose(1, 2)
        if mask is not None:
            x = torch.where(mask[..., None], self.mask_token.to(x.dtype), x)
        x = x + self.places
        features = []
        for block in self.blocks:
            x, y = block(x)
            features.append(y)
        return x, features


@torch.no_grad()
def targets(teacher, images):
    _, features = teacher(images)
    layers = [F.layer_norm(f.float(), (DIM,)) for f in features[-TOP_K:]]
    return F.layer_norm(torch.stack(layers).mean(0), (DIM,))


@torch.no_grad()
def update(teacher, student, decay):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.mul_(decay).add_(s, alpha=1 - decay)


def probe(teacher):
    """nearest class centre on the mean features"""
    teacher.eval()
    feats, labels = [], []
    with torch.inference_mode(), torch.autocast(DEVICE, dtype=torch.bfloat16):
        for images, y in DataLoader(Fractals(PROBE_IMAGES, 10**8), batch_size=100, num_workers=2):
            feats.append(teacher(images.to(DEVICE))[0].mean(1).float().cpu())
            labels.append(y)
    feats, labels = F.normalize(torch.cat(feats), dim=-1), torch.cat(labels)
    half = len(feats) // 2
    centres = torch.stack(
        [feats[:half][labels[:half] == c].mean(0).nan_to_num() for c in range(CLASSES)]
    )
    return ((feats[half:] @ centres.T).argmax(-1) == labels[half:]).float().mean().item()


def main():
    student = Encoder().to(DEVICE)
    head = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM)).to(DEVICE)
    teacher = copy.deepcopy(student).requires_grad_(False)
    params = list(student.parameters()) + list(head.parameters())
    optimizer = torch.optim.AdamW(params, lr=5e-4, betas=(0.9, 0.98), weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 5e-4, total_steps=EPOCHS * STEPS_PER_EPOCH
    )
    loader = DataLoader(
        Fractals(BATCH * STEPS_PER_EPOCH + 11, 0),
        batch_size=BATCH,
        shuffle=True,
        num_workers=4,
        drop_last=True,
        pin_memory=DEVICE != "cpu",
    )
    for epoch in range(EPOCHS):
        student.train()
        total = 0.0
        for images, _ in loader:
            images = images.to(DEVICE, non_blocking=True)
            mask = torch.rand(len(images), (IMAGE // PATCH) ** 2, device=DEVICE) < MASK_RATIO
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                goal = targets(teacher, images)
                hidden, _ = student(images, mask)
                guess = head(hidden[mask])
            loss = F.smooth_l1_loss(guess.float(), goal[mask], beta=2.0)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(params, 3.0)
            optimizer.step()
            schedule.step()
            update(teacher, student, 0.998)
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f} probe {probe(teacher):.3f}")
    torch.save(teacher.state_dict(), "data2vec_teacher.pt")


if __name__ == "__main__":
    main()
