# Skin lesion classification. Classes are very imbalanced -> WeightedRandomSampler.
# DenseNet-121, plain fp32, early stopping on balanced accuracy.
import copy
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler
from torchvision import models, transforms
from tqdm import tqdm

SEED = 42
IMG_SIZE = 224
N_TRAIN = 1100
N_VALID = 400
BATCH = 48
VALID_BATCH = 128
EPOCHS = 5
PATIENCE = 2
LR = 3e-4
WORKERS = 6
OUT = "best_lesions.pth"
CLASSES = ["akiec", "bcc", "bkl", "df", "mel", "nv", "vasc"]
PRIOR = [0.033, 0.051, 0.11, 0.011, 0.111, 0.67, 0.014]

device = torch.device("cuda")


def seed_everything(seed):
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


class LesionDataset(Dataset):
    def __init__(self, labels, tfm):
        self.labels = labels
        self.tfm = tfm

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        label = int(self.labels[i])
        rng = np.random.default_rng(i)
        small = rng.integers(0, 120, size=(3, 32, 32), dtype=np.uint8)
        small[label % 3] += np.uint8(15 * label)
        x = torch.from_numpy(small).float().div_(255)
        x = F.interpolate(
            x[None], size=(IMG_SIZE + 32, IMG_SIZE + 32), mode="bilinear", align_corners=False
        )[0]
        return self.tfm(x), label


def build_loaders():
    rng = np.random.default_rng(SEED)
    y_train = rng.choice(len(CLASSES), size=N_TRAIN, p=np.array(PRIOR) / sum(PRIOR))
    y_valid = rng.choice(len(CLASSES), size=N_VALID, p=np.array(PRIOR) / sum(PRIOR))
    norm = transforms.Normalize([0.76, 0.55, 0.57], [0.14, 0.15, 0.17])
    train_tfm = transforms.Compose(
        [
            transforms.RandomCrop(IMG_SIZE),
            transforms.RandomHorizontalFlip(),
            transforms.RandomVerticalFlip(),
            transforms.ColorJitter(0.1, 0.1),
            norm,
            transforms.RandomErasing(p=0.25),
        ]
    )
    valid_tfm = transforms.Compose([transforms.CenterCrop(IMG_SIZE), norm])

    counts = np.bincount(y_train, minlength=len(CLASSES))
    print("train counts:", dict(zip(CLASSES, counts.tolist())))
    w = 1.0 / np.maximum(counts, 1)
    sampler = WeightedRandomSampler(
        torch.as_tensor(w[y_train]), num_samples=len(y_train), replacement=True
    )
    train_dl = DataLoader(
        LesionDataset(y_train, train_tfm),
        batch_size=BATCH,
        sampler=sampler,
        num_workers=WORKERS,
        pin_memory=True,
    )
    valid_dl = DataLoader(
        LesionDataset(y_valid, valid_tfm),
        batch_size=VALID_BATCH,
        shuffle=False,
        num_workers=WORKERS,
        pin_memory=True,
    )
    return train_dl, valid_dl


def run_valid(model, dl):
    model.eval()
    k = len(CLASSES)
    cm = torch.zeros(k, k, dtype=torch.long)
    tot_loss = 0
    all_probs = []
    with torch.no_grad():
        for x, y in dl:
            x, y = x.to(device), y.to(device)
            logits = model(x)
            # horizontal flip TTA
            logits = (logits + model(torch.flip(x, dims=[3]))) / 2
            tot_loss += F.cross_entropy(logits, y, reduction="sum").item()
            probs = logits.softmax(1)
            all_probs.append(probs.cpu().numpy())
            idx = y * k + probs.argmax(1)
            cm += torch.bincount(idx, minlength=k * k).reshape(k, k).cpu()
    recall = cm.diag().float() / cm.sum(1).clamp(min=1).float()
    probs = np.concatenate(all_probs)
    assert not np.isnan(probs).any()
    return tot_loss / len(dl.dataset), recall.mean().item(), cm


def main():
    seed_everything(SEED)
    train_dl, valid_dl = build_loaders()

    model = models.densenet121(weights=None)
    model.classifier = torch.nn.Linear(model.classifier.in_features, len(CLASSES))
    model = model.to(device)
    print("params: %.2fM" % (sum(p.numel() for p in model.parameters()) / 1e6))

    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="max", factor=0.3, patience=0
    )
    loss_fn = torch.nn.CrossEntropyLoss()

    best_score, best_state, wait = -1.0, None, 0
    for epoch in range(EPOCHS):
        model.train()
        running = 0.0
        pbar = tqdm(train_dl, desc=f"epoch {epoch}", mininterval=2)
        for step, (x, y) in enumerate(pbar):
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            out = model(x)
            loss = loss_fn(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running = 0.9 * running + 0.1 * loss.item() if step else loss.item()
            pbar.set_postfix(loss=f"{running:.4f}")

        vloss, score, cm = run_valid(model, valid_dl)
        scheduler.step(score)
        print(
            f"epoch {epoch}: valid loss {vloss:.4f}  balanced acc {score:.4f}  lr {optimizer.param_groups[0]['lr']:.2e}"
        )
        if score > best_score:
            best_score, wait = score, 0
            best_state = copy.deepcopy(model.state_dict())
            torch.save(best_state, OUT)
        else:
            wait += 1
            if wait >= PATIENCE:
                print("early stopping")
                break

    model.load_state_dict(torch.load(OUT, map_location=device))
    vloss, score, cm = run_valid(model, valid_dl)
    print("best balanced acc", round(score, 4))
    print(cm)
    os.remove(OUT)


if __name__ == "__main__":
    main()
