import os

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset
from torchvision import models, transforms

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
batch_size = 112
num_epochs = 2
num_classes = 180


class FungiDataset(Dataset):
    """Stands in for an image folder."""

    def __init__(self, n, transform):
        self.n = n
        self.transform = transform
        self.raw = torch.randint(0, 255, (40, 3, 256, 256), dtype=torch.uint8)

    def __len__(self):
        return self.n

    def __getitem__(self, idx):
        return self.transform(self.raw[idx % 40]), idx % num_classes


train_tf = transforms.Compose(
    [
        transforms.RandomResizedCrop(224, antialias=True),
        transforms.RandomHorizontalFlip(),
        transforms.ConvertImageDtype(torch.float32),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
)
val_tf = transforms.Compose(
    [
        transforms.CenterCrop(224),
        transforms.ConvertImageDtype(torch.float32),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
)

loaders = {
    "train": DataLoader(
        FungiDataset(600, train_tf), batch_size=batch_size, shuffle=True, num_workers=2
    ),
    "val": DataLoader(
        FungiDataset(200, val_tf), batch_size=batch_size, shuffle=False, num_workers=2
    ),
}

model = models.googlenet(weights=None, num_classes=num_classes, aux_logits=True, init_weights=False)
model = model.to(device)
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=2e-4)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.96)

best_acc = 0.0
for epoch in range(num_epochs):
    print(f"Epoch {epoch}/{num_epochs - 1}")
    for phase in ["train", "val"]:
        model.train() if phase == "train" else model.eval()
        running_loss, running_corrects, seen = 0.0, 0, 0
        for inputs, labels in loaders[phase]:
            inputs = inputs.to(device)
            labels = labels.to(device)
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                if phase == "train":
                    out = model(inputs)
                    logits = out.logits
                    loss = criterion(logits, labels)
                    loss = loss + 0.3 * (
                        criterion(out.aux_logits1, labels) + criterion(out.aux_logits2, labels)
                    )
                else:
                    logits = model(inputs)
                    loss = criterion(logits, labels)
                preds = logits.argmax(1)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
            running_loss += loss.item() * inputs.size(0)
            running_corrects += torch.sum(preds == labels).item()
            seen += inputs.size(0)
        if phase == "train":
            scheduler.step()
        acc = running_corrects / seen
        print(f"{phase} Loss: {running_loss / seen:.4f} Acc: {acc:.4f}")
        if phase == "val" and acc >= best_acc:
            best_acc = acc
            torch.save(model.state_dict(), os.path.join(".", "googlenet_fungi.pth"))
print("best", best_acc)
