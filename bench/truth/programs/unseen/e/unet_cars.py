"""U-Net for the outlines of cars: fp16, RMSprop, Dice loss, validation twice an epoch, full size last."""

import argparse
import logging

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class CarDataset(Dataset):
    def __init__(self, count, height, width):
        self.count, self.height, self.width = count, height, width

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        top, left = (torch.rand(2, generator=g) * 0.5).tolist()
        mask = torch.zeros(self.height, self.width, dtype=torch.long)
        y, x = int(top * self.height), int(left * self.width)
        mask[y : y + self.height // 2, x : x + self.width // 2] = 1
        image = mask.float() + 0.3 * torch.randn(3, self.height, self.width, generator=g)
        return {"image": image, "mask": mask}


class DoubleConv(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
            nn.Conv2d(cout, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self, classes, base, bilinear):
        super().__init__()
        sizes = [base * 2**i for i in range(5)]
        self.inc = DoubleConv(3, base)
        self.down = nn.ModuleList([DoubleConv(a, b) for a, b in zip(sizes, sizes[1:])])
        self.up, self.merge = nn.ModuleList(), nn.ModuleList()
        for small, large in zip(sizes[-2::-1], sizes[:0:-1]):
            if bilinear:
                enlarge = nn.Sequential(
                    nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
                    nn.Conv2d(large, small, 1),
                )
            else:
                enlarge = nn.ConvTranspose2d(large, small, 2, 2)
            self.up.append(enlarge)
            self.merge.append(DoubleConv(large, small))
        self.outc = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        kept = [self.inc(x)]
        for down in self.down:
            kept.append(down(F.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for up, merge in zip(self.up, self.merge):
            x, skip = up(x), kept.pop()
            dy, dx = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
            x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
            x = merge(torch.cat([skip, x], 1))
        return self.outc(x)


def dice_coeff(p, truth, epsilon=1e-6):
    inter = 2 * (p * truth).sum((-1, -2))
    return ((inter + epsilon) / (p.sum((-1, -2)) + truth.sum((-1, -2)) + epsilon)).mean()


@torch.inference_mode()
def evaluate(net, loader, device, amp):
    net.eval()
    score = 0.0
    with torch.autocast(device.type, torch.float16, enabled=amp):
        for batch in loader:
            image, mask = batch["image"].to(device), batch["mask"].to(device)
            pred = F.one_hot(net(image).argmax(1), 2).permute(0, 3, 1, 2).float()
            score += dice_coeff(pred[:, 1], (mask == 1).float())
    net.train()
    return score / max(len(loader), 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--images", type=int, default=160)
    p.add_argument("--height", type=int, default=320)
    p.add_argument("--width", type=int, default=480)
    p.add_argument("--base", type=int, default=64)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--bilinear", action="store_true")
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    amp = device.type == "cuda"
    data = CarDataset(args.images, args.height, args.width)
    train_set, val_set = random_split(data, [0.85, 0.15])
    train = DataLoader(train_set, args.batch_size, shuffle=True, num_workers=4, pin_memory=amp)
    val = DataLoader(val_set, args.batch_size, num_workers=2, drop_last=True)
    model = UNet(2, args.base, args.bilinear).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.RMSprop(
        model.parameters(), lr=1e-5, weight_decay=1e-8, momentum=0.999, foreach=True
    )
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=5)
    scaler = torch.amp.GradScaler(device.type, enabled=amp)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(1, args.epochs + 1):
        for step, batch in enumerate(train):
            image = batch["image"].to(device, memory_format=torch.channels_last)
            mask = batch["mask"].to(device)
            with torch.autocast(device.type, torch.float16, enabled=amp):
                pred = model(image)
                loss = criterion(pred, mask)
                truth = F.one_hot(mask, 2).permute(0, 3, 1, 2).float()
                loss = loss + 1 - dice_coeff(F.softmax(pred, 1).float(), truth)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            if step % max(1, len(train) // 2) == 0:
                score = evaluate(model, val, device, amp)
                scheduler.step(score)
                logging.info("epoch %d: loss %.3f, Dice %.3f", epoch, loss.item(), score.item())
        torch.save(model.state_dict(), f"checkpoint_epoch{epoch}.pth")
    full = CarDataset(4, 4 * args.height, 4 * args.width)
    score = evaluate(model, DataLoader(full, 1), device, amp)
    logging.info("full size: Dice %.3f", score.item())


if __name__ == "__main__":
    main()
