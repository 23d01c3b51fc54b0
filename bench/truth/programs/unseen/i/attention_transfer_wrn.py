# Attention transfer (Zagoruyko & Komodakis): WideResNet-50-2 teacher -> ResNet-18 student.
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import resnet18, wide_resnet50_2
from torchvision.models.feature_extraction import create_feature_extractor

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BATCH, EVAL_BATCH, SIZE, CLASSES, STEPS = 128, 200, 176, 200, 12
BETA, TEMP, ALPHA = 1000.0, 4.0, 0.9

taps = {"layer1": "g1", "layer2": "g2", "layer3": "g3", "layer4": "g4", "fc": "logits"}
teacher = (
    create_feature_extractor(wide_resnet50_2(weights=None, num_classes=CLASSES), taps)
    .to(DEVICE)
    .eval()
)
teacher.requires_grad_(False)
student_net = resnet18(weights=None, num_classes=CLASSES).to(DEVICE)
student = create_feature_extractor(student_net, taps)


def attention(f):
    return F.normalize(f.pow(2).mean(1).flatten(1))


def at_loss(a, b):
    return (attention(a) - attention(b)).pow(2).mean()


def kd_loss(s, t, y):
    soft = (
        F.kl_div(F.log_softmax(s / TEMP, 1), F.softmax(t / TEMP, 1), reduction="batchmean")
        * TEMP**2
    )
    return ALPHA * soft + (1 - ALPHA) * F.cross_entropy(s, y)


data = TensorDataset(
    torch.randn(BATCH * STEPS // 2 + 40, 3, SIZE, SIZE),
    torch.randint(0, CLASSES, (BATCH * STEPS // 2 + 40,)),
)
loader = DataLoader(data, BATCH, shuffle=True, pin_memory=True)
test = DataLoader(TensorDataset(*data[: EVAL_BATCH + 56]), EVAL_BATCH)
opt = torch.optim.SGD(student_net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
sched = torch.optim.lr_scheduler.MultiStepLR(opt, [1], gamma=0.2)

for epoch in range(2):
    student.train()
    total = 0.0
    for x, y in loader:
        x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
        with torch.no_grad():
            t = teacher(x)
        s = student(x)
        at = sum(at_loss(s[g], t[g]) for g in ("g1", "g2", "g3", "g4"))
        loss = kd_loss(s["logits"], t["logits"], y) + BETA / 2 * at
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    sched.step()
    student.eval()
    agree = n = 0
    with torch.no_grad():
        for x, y in test:
            x = x.to(DEVICE)
            agree += (student(x)["logits"].argmax(1) == teacher(x)["logits"].argmax(1)).sum().item()
            n += len(y)
    print(f"epoch {epoch}: loss {total / len(loader):.3f}, agreement with teacher {agree / n:.3f}")
torch.save(student_net.state_dict(), "student18.pt")
