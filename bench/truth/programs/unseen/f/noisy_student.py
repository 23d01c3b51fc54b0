"""Noisy student: three rounds, each student larger than its teacher, then the teacher of the next round."""

import copy
import gc

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

ROUNDS = ["efficientnet_b0", "efficientnet_b1", "efficientnet_b2"]
CLASSES = 200
LABELED, UNLABELED = 1024, 3072
SIZE = 224
BATCH = 64
STEPS = 25
device = "cuda"

torch.manual_seed(1)
torch.backends.cudnn.benchmark = False


def pictures(count, seed):
    g = torch.Generator().manual_seed(seed)
    small = torch.randint(
        0, 256, (count, 3, SIZE // 16, SIZE // 16), generator=g, dtype=torch.uint8
    )
    labels = small.float().mean((1, 2, 3)).argsort().argsort() * CLASSES // count
    return small, labels


labeled, labels = pictures(LABELED, 0)
unlabeled, _ = pictures(UNLABELED, 1)
labeled, labels, unlabeled = labeled.to(device), labels.to(device), unlabeled.to(device)


def load(store, index):
    x = store[index].float().div_(255)
    return F.interpolate(x, size=(SIZE, SIZE), mode="nearest").sub_(0.45).div_(0.225)


def noise(x):
    """Flip, jitter and cutout, as the student sees them."""
    if torch.rand(()) < 0.5:
        x = x.flip(-1)
    x = x * (1 + 0.4 * (torch.rand(len(x), 3, 1, 1, device=x.device) - 0.5))
    h = SIZE // 4
    top, left = (int(v) for v in torch.randint(0, SIZE - h, (2,)))
    x[:, :, top : top + h, left : left + h] = 0
    return x


@torch.no_grad()
def pseudo_label(teacher):
    teacher.eval()
    soft, keep = [], []
    for part in torch.arange(UNLABELED, device=device).split(BATCH * 4):
        with torch.autocast("cuda", torch.bfloat16):
            p = teacher(load(unlabeled, part)).float().softmax(-1)
        soft.append(p)
        keep.append(p.max(-1).values > 1.0 / CLASSES)
    return torch.cat(soft), torch.cat(keep)


def train(model, teacher):
    soft, keep = (None, None) if teacher is None else pseudo_label(teacher)
    pool = None if teacher is None else keep.nonzero().flatten()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    best, best_loss = None, float("inf")
    model.train()
    for step in range(STEPS):
        pick = torch.randint(0, LABELED, (BATCH,), device=device)
        x, y = noise(load(labeled, pick)), labels[pick]
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            if pool is not None and len(pool) > 0:
                pick = pool[torch.randint(0, len(pool), (2 * BATCH,), device=device)]
                logits = model(noise(load(unlabeled, pick)))
                loss = loss - (soft[pick] * logits.float().log_softmax(-1)).sum(-1).mean()
        if not torch.isfinite(loss):
            print("loss is not finite, step skipped")
            continue
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        if step % 5 == 4 and loss.item() < best_loss:
            best_loss = loss.item()
            best = copy.deepcopy(model.state_dict())
    if best is not None:
        model.load_state_dict(best)
    return best_loss


teacher = None
for number, name in enumerate(ROUNDS):
    student = getattr(torchvision.models, name)(num_classes=CLASSES).to(device)
    loss = train(student, teacher)
    print(f"round {number} {name}: best loss {loss:.3f}")
    print(f"  {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB at most so far")
    del teacher
    gc.collect()
    torch.cuda.empty_cache()
    teacher = student.requires_grad_(False)
    del student
