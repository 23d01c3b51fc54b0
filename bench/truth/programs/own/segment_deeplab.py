"""Segmentation with torchvision's DeepLab: GradScaler, weighted losses, a loss that is checked for NaN."""

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.models.segmentation import deeplabv3_resnet50


class Scenes(Dataset):
    def __len__(self):
        return 50

    def __getitem__(self, i):
        return torch.rand(3, 256, 256), torch.randint(0, 21, (256, 256))


model = deeplabv3_resnet50(
    weights=None, weights_backbone=None, num_classes=21, aux_loss=True
).cuda()
scaler = torch.cuda.amp.GradScaler()
optimizer = torch.optim.SGD(
    [
        {"params": model.backbone.parameters(), "lr": 0.01},
        {"params": [*model.classifier.parameters(), *model.aux_classifier.parameters()], "lr": 0.1},
    ],
    momentum=0.9,
    weight_decay=1e-4,
)
train = DataLoader(Scenes(), 8, shuffle=True, num_workers=2, drop_last=True)
valid = DataLoader(Scenes(), 4, num_workers=2)
criterion = torch.nn.CrossEntropyLoss(ignore_index=255)
for epoch in range(2):
    model.train()
    for step, (image, label) in enumerate(train):
        image, label = image.cuda(), label.cuda()
        with torch.cuda.amp.autocast():
            out = model(image)
            loss = criterion(out["out"], label) + 0.5 * criterion(out["aux"], label)
        if torch.isnan(loss).any():
            raise SystemExit("NaN")
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        scaler.step(optimizer)
        scaler.update()
    model.eval()
    table = torch.zeros(21, 21)
    with torch.inference_mode():
        for image, label in valid:
            guess = model(image.cuda())["out"].argmax(1).cpu()
            table += torch.bincount(21 * label.flatten() + guess.flatten(), minlength=441).view(
                21, 21
            )
    print(epoch, loss.item(), (table.diag() / table.sum(1)).mean().item())
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "deeplab.pt")
