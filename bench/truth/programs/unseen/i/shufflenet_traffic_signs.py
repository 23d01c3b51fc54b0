# Traffic sign recognition with ShuffleNetV2 x2.0, fp16 + GradScaler, OneCycle.
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split
from torchvision.models import shufflenet_v2_x2_0

BATCH = 224
VAL_BATCH = 100
SIZE = 192
CLASSES = 43
EPOCHS = 2
N = 1500
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

torch.manual_seed(3)
torch.backends.cudnn.benchmark = True

images = torch.randint(0, 256, (N, 3, SIZE, SIZE), dtype=torch.uint8)
labels = torch.randint(0, CLASSES, (N,))
train_set, val_set = random_split(TensorDataset(images, labels), [N - 300, 300])
train_loader = DataLoader(train_set, batch_size=BATCH, shuffle=True, pin_memory=True)
val_loader = DataLoader(val_set, batch_size=VAL_BATCH, pin_memory=True)

model = shufflenet_v2_x2_0(weights=None)
model.fc = nn.Sequential(nn.Dropout(0.2), nn.Linear(model.fc.in_features, CLASSES))
model = model.to(DEVICE, memory_format=torch.channels_last)

decay, no_decay = [], []
for name, p in model.named_parameters():
    (no_decay if p.ndim == 1 else decay).append(p)
optimizer = torch.optim.SGD(
    [{"params": decay, "weight_decay": 4e-5}, {"params": no_decay, "weight_decay": 0.0}],
    lr=0.1,
    momentum=0.9,
    nesterov=True,
)
scheduler = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=0.4, total_steps=EPOCHS * len(train_loader)
)
scaler = torch.amp.GradScaler(DEVICE.type, enabled=DEVICE.type == "cuda")
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
mean = torch.tensor([0.485, 0.456, 0.406], device=DEVICE).view(1, 3, 1, 1)
std = torch.tensor([0.229, 0.224, 0.225], device=DEVICE).view(1, 3, 1, 1)


def prepare(x):
    x = x.to(DEVICE, non_blocking=True).float().div_(255)
    return ((x - mean) / std).contiguous(memory_format=torch.channels_last)


def train_epoch(epoch):
    model.train()
    for step, (x, y) in enumerate(train_loader):
        x, y = prepare(x), y.to(DEVICE, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast(DEVICE.type, dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        if step % 3 == 0:
            print(
                f"[{epoch}:{step}] loss {loss.item():.3f} norm {norm:.2f} lr {scheduler.get_last_lr()[0]:.4f}"
            )


@torch.no_grad()
def validate():
    model.eval()
    confusion = torch.zeros(CLASSES, CLASSES, dtype=torch.long, device=DEVICE)
    for x, y in val_loader:
        with torch.autocast(DEVICE.type, dtype=torch.float16):
            pred = model(prepare(x)).argmax(1)
        idx = y.to(DEVICE) * CLASSES + pred
        confusion += torch.bincount(idx, minlength=CLASSES**2).view(CLASSES, CLASSES)
    recall = confusion.diag() / confusion.sum(1).clamp(min=1)
    return recall.mean().item()


for epoch in range(EPOCHS):
    train_epoch(epoch)
    print(f"epoch {epoch}: balanced accuracy {validate():.3f}")
torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, "signs.pt")
