"""A small ViT from scratch: CutMix and MixUp on the GPU, averaged weights, warm-up, last short batches kept."""

import os

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import VisionTransformer
from torchvision.transforms import v2

IMAGES = int(os.environ.get("IMAGES", "5100"))
SIDE = int(os.environ.get("SIDE", "64"))
PATCH = int(os.environ.get("PATCH", "4"))
WIDTH = int(os.environ.get("WIDTH", "384"))
DEPTH = int(os.environ.get("DEPTH", "12"))
BATCH = int(os.environ.get("BATCH", "160"))
TEST_BATCH = int(os.environ.get("TEST_BATCH", "1000"))
EPOCHS = int(os.environ.get("EPOCHS", "2"))
CLASSES = 200
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def make_data(count, seed):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=g)
    images = torch.randint(0, 256, (count, 3, SIDE, SIDE), generator=g, dtype=torch.uint8)
    images[:, 0, :4] = (labels % 256).to(torch.uint8).view(-1, 1, 1)
    return TensorDataset(images, labels)


normalize = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3)])
augment = v2.Compose([v2.RandomCrop(SIDE, padding=4), v2.RandomHorizontalFlip(), normalize])
mix = v2.RandomChoice([v2.CutMix(num_classes=CLASSES), v2.MixUp(alpha=0.8, num_classes=CLASSES)])


def evaluate(model, loader):
    model.eval()
    right = 0
    with torch.inference_mode(), torch.autocast(device.type, dtype=torch.bfloat16):
        for images, labels in loader:
            logits = model(normalize(images.to(device)))
            right += (logits.argmax(1) == labels.to(device)).sum()
    return right.item() / len(loader.dataset)


def main():
    torch.manual_seed(5)
    train = DataLoader(make_data(IMAGES, 0), BATCH, shuffle=True, num_workers=2)
    test = DataLoader(make_data(IMAGES // 2, 1), TEST_BATCH)
    model = VisionTransformer(
        image_size=SIDE,
        patch_size=PATCH,
        num_layers=DEPTH,
        num_heads=max(1, WIDTH // 64),
        hidden_dim=WIDTH,
        mlp_dim=4 * WIDTH,
        num_classes=CLASSES,
    ).to(device)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999), use_buffers=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=None)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=10)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * len(train))
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], [10])
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(EPOCHS):
        model.train()
        for images, labels in train:
            images, labels = images.to(device), labels.to(device)
            images, labels = mix(augment(images), labels)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            ema.update_parameters(model)
        ours, averaged = evaluate(model, test), evaluate(ema, test)
        print(f"epoch {epoch}: loss {loss.item():.3f}, {ours:.4f}, averaged {averaged:.4f}")
    torch.save(ema.module.state_dict(), "vit_ema.pt")


if __name__ == "__main__":
    main()
