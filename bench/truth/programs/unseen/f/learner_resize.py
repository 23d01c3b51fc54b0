"""A learner with callbacks: frozen body first, one cycle, larger pictures in each stage, then all unfrozen."""

import math
from functools import partial

import torch
import torch.nn.functional as F
import torchvision
from torch import nn


class CancelFitException(Exception):
    pass


class Callback:
    order = 0

    def __getattr__(self, name):
        if name == "learn":
            raise AttributeError(name)
        return getattr(self.learn, name)


class Recorder(Callback):
    order = 50

    def before_fit(self):
        self.learn.losses = []

    def after_batch(self):
        if self.training:
            self.losses.append(self.loss.detach())

    def after_epoch(self):
        mean = torch.stack(self.losses[-self.batches :]).mean().item()
        used = torch.cuda.memory_allocated() >> 20
        print(f"{self.epoch:3d} {mean:8.4f} {self.accuracy:8.4f} {used:8d} MiB")


class TerminateOnNaN(Callback):
    order = -9

    def after_loss(self):
        if torch.isinf(self.loss) or torch.isnan(self.loss):
            raise CancelFitException


class MixedPrecision(Callback):
    order = 10

    def before_fit(self):
        self.learn.scaler = torch.amp.GradScaler("cuda")

    def before_batch(self):
        self.context = torch.autocast("cuda", torch.float16)
        self.context.__enter__()

    def after_loss(self):
        self.context.__exit__(None, None, None)


class OneCycle(Callback):
    def __init__(self, peak, start=0.25):
        self.peak, self.start = peak, start

    def before_step(self):
        done = self.step / self.total
        if done < self.start:
            scale = (1 - math.cos(math.pi * done / self.start)) / 2
        else:
            scale = (1 + math.cos(math.pi * (done - self.start) / (1 - self.start))) / 2
        for group in self.optimizer.param_groups:
            group["lr"] = self.peak * group["mult"] * max(scale, 1e-3)


class Data:
    def __init__(self, count, size, batch, classes):
        g = torch.Generator().manual_seed(0)
        self.seeds = torch.rand(count, 3, 16, 16, generator=g)
        self.y = (self.seeds.mean((1, 2, 3)).argsort().argsort() * classes // count).long()
        self.size, self.batch = size, batch

    def loader(self, train):
        split = int(len(self.y) * 0.8)
        order = torch.randperm(split) if train else torch.arange(split, len(self.y))
        for pick in order.split(self.batch if train else 2 * self.batch):
            x = F.interpolate(self.seeds[pick].cuda(), size=(self.size, self.size), mode="bicubic")
            yield x, self.y[pick].cuda()


class Learner:
    def __init__(self, body, head, loss_func, opt_func):
        self.body, self.head = body, head
        self.model = nn.Sequential(body, head).cuda()
        self.loss_func, self.opt_func = loss_func, opt_func

    def freeze(self):
        for m in self.body.modules():
            if not isinstance(m, nn.BatchNorm2d):
                for p in m.parameters(recurse=False):
                    p.requires_grad_(False)

    def unfreeze(self):
        self.model.requires_grad_(True)

    def __call__(self, name):
        for cb in sorted(self.cbs, key=lambda c: c.order):
            method = getattr(type(cb), name, None)
            if method is not None:
                method(cb)

    def one_batch(self, x, y):
        self.x, self.y = x, y
        self("before_batch")
        self.pred = self.model(self.x)
        self.loss = self.loss_func(self.pred, self.y)
        self("after_loss")
        if self.training:
            self("before_step")
            self.scaler.scale(self.loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
            self.step += 1
        self("after_batch")

    def fit(self, data, epochs, lr, cbs):
        self.cbs = [Recorder(), TerminateOnNaN(), MixedPrecision(), OneCycle(lr), *cbs]
        for cb in self.cbs:
            cb.learn = self
        groups = [
            {"params": [p for p in self.body.parameters() if p.requires_grad], "mult": 0.1},
            {"params": list(self.head.parameters()), "mult": 1.0},
        ]
        self.optimizer = self.opt_func(groups, lr=lr)
        self.step, self.batches = 0, math.ceil(int(len(data.y) * 0.8) / data.batch)
        self.total = self.batches * epochs
        try:
            self("before_fit")
            for self.epoch in range(epochs):
                self.training = True
                self.model.train()
                for x, y in data.loader(True):
                    self.one_batch(x, y)
                self.training = False
                self.model.eval()
                right = []
                with torch.no_grad():
                    for x, y in data.loader(False):
                        self.one_batch(x, y)
                        right.append((self.pred.argmax(-1) == y).float().mean())
                self.accuracy = torch.stack(right).mean().item()
                self("after_epoch")
        except CancelFitException:
            print("stopped: loss is not finite")


def main():
    torch.manual_seed(2)
    classes = 37
    net = torchvision.models.resnet50()
    body = nn.Sequential(*list(net.children())[:-2])
    head = nn.Sequential(
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(2048, 512),
        nn.ReLU(),
        nn.Linear(512, classes),
    )
    opt = partial(torch.optim.AdamW, betas=(0.9, 0.99), weight_decay=0.01)
    learn = Learner(body, head, nn.CrossEntropyLoss(), opt)
    learn.freeze()
    learn.fit(Data(1200, 128, 96, classes), 1, 2e-3, [])
    for size, batch in ((128, 96), (192, 96), (288, 64)):
        learn.unfreeze()
        print(f"size {size}")
        learn.fit(Data(1200, size, batch, classes), 1, 1e-3, [])


if __name__ == "__main__":
    main()
