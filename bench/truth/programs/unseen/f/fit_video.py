"""Actions in short clips with compile(), fit(), evaluate() and predict(), and callbacks that keep the best weights."""

import time

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset


class Clips(Dataset):
    def __init__(self, count=300, frames=16, side=112, classes=51):
        self.count, self.frames, self.side, self.classes = count, frames, side, classes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        still = torch.rand(3, 1, self.side, self.side, generator=g)
        speed = i % self.classes
        moved = [still.roll(speed * t // 4, -1) for t in range(self.frames)]
        return torch.cat(moved, 1), speed


class History:
    def __init__(self):
        self.epochs = []

    def append(self, **values):
        self.epochs.append(values)
        print(" - ".join(f"{k}: {v:.4f}" for k, v in values.items()))


class Callback:
    model = None

    def on_train_begin(self):
        """Before the first epoch."""

    def on_epoch_end(self, epoch, logs):
        """After validation."""


class EarlyStopping(Callback):
    def __init__(self, monitor="val_loss", patience=1, restore_best_weights=True):
        self.monitor, self.patience, self.restore = monitor, patience, restore_best_weights
        self.best, self.wait, self.weights = float("inf"), 0, None

    def on_epoch_end(self, epoch, logs):
        if logs[self.monitor] < self.best:
            self.best, self.wait = logs[self.monitor], 0
            if self.restore:
                self.weights = {k: v.clone() for k, v in self.model.net.state_dict().items()}
            return
        self.wait += 1
        if self.wait >= self.patience:
            self.model.stop_training = True
            if self.restore:
                self.model.net.load_state_dict(self.weights)


class ReduceLR(Callback):
    def __init__(self, factor=0.3):
        self.factor, self.last = factor, float("inf")

    def on_epoch_end(self, epoch, logs):
        if logs["val_loss"] > self.last:
            for group in self.model.optimizer.param_groups:
                group["lr"] *= self.factor
        self.last = logs["val_loss"]


class ModelCheckpoint(Callback):
    def __init__(self, path):
        self.path = path

    def on_epoch_end(self, epoch, logs):
        torch.save(self.model.net.state_dict(), self.path.format(epoch=epoch))


class Model:
    def __init__(self, net):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.net = net.to(self.device)

    def compile(self, optimizer, loss, metrics=(), mixed=True):
        self.optimizer, self.loss, self.metrics, self.mixed = optimizer, loss, metrics, mixed

    def _forward(self, x):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.mixed):
            return self.net(x.to(self.device, non_blocking=True)).float()

    def fit(self, data, epochs, validation_data, callbacks=()):
        history, self.stop_training = History(), False
        for cb in callbacks:
            cb.model = self
            cb.on_train_begin()
        for epoch in range(epochs):
            start = time.time()
            self.net.train()
            total = 0.0
            for x, y in data:
                loss = self.loss(self._forward(x), y.to(self.device))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.item()
            logs = {"loss": total / len(data)}
            logs.update({"val_" + k: v for k, v in self.evaluate(validation_data).items()})
            history.append(**logs, seconds=time.time() - start)
            for cb in callbacks:
                cb.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        return history

    def evaluate(self, data):
        guesses, truth = self.predict(data), torch.cat([y for _, y in data])
        found = {"loss": self.loss(guesses, truth).item()}
        found.update({m.__name__: m(guesses, truth) for m in self.metrics})
        return found

    @torch.no_grad()
    def predict(self, data):
        self.net.eval()
        return torch.cat([self._forward(x) for x, _ in data]).cpu()


def accuracy(guesses, truth):
    return (guesses.argmax(-1) == truth).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(10)
    BATCH = 24
    clips = Clips()
    order = torch.randperm(len(clips)).tolist()
    cut = len(clips) * 4 // 5
    train = DataLoader(
        Subset(clips, order[:cut]), BATCH, shuffle=True, num_workers=4, pin_memory=True
    )
    valid = DataLoader(Subset(clips, order[cut:]), 2 * BATCH, num_workers=2)
    model = Model(torchvision.models.video.r2plus1d_18(num_classes=clips.classes))
    model.compile(
        torch.optim.Adam(model.net.parameters(), 1e-4),
        nn.CrossEntropyLoss(label_smoothing=0.05),
        [accuracy],
    )
    model.fit(train, 3, valid, [EarlyStopping(), ReduceLR(), ModelCheckpoint("clips-{epoch}.pt")])
    long = DataLoader(Clips(16, 64), 8)
    print("long clips:", tuple(model.predict(long).shape))
