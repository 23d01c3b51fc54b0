"""DeiT-small learns from labels and from a RegNet teacher (hard distillation), Lightning with fp16."""

import argparse

import lightning as L
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import DeiTConfig, DeiTModel


class Blobs(Dataset):
    def __init__(self, n, size, classes, seed):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, classes, (n,), generator=g)
        self.palette = torch.rand(classes, 3, 1, 1, generator=torch.Generator().manual_seed(0))
        self.backgrounds = torch.randn(16, 3, size, size, generator=g)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        y = self.labels[i]
        return self.backgrounds[i % 16] * 0.5 + self.palette[y], y


class Student(nn.Module):
    def __init__(self, size, hidden, layers, classes):
        super().__init__()
        self.body = DeiTModel(
            DeiTConfig(
                image_size=size,
                hidden_size=hidden,
                num_hidden_layers=layers,
                num_attention_heads=6,
                intermediate_size=4 * hidden,
            ),
            add_pooling_layer=False,
        )
        self.cls_head = nn.Linear(hidden, classes)
        self.dist_head = nn.Linear(hidden, classes)

    def forward(self, x):
        h = self.body(pixel_values=x).last_hidden_state
        return self.cls_head(h[:, 0]), self.dist_head(h[:, 1])


class Distill(L.LightningModule):
    def __init__(self, a):
        super().__init__()
        self.save_hyperparameters(vars(a))
        self.student = Student(a.size, a.hidden, a.layers, a.classes)
        self.teacher = torchvision.models.regnet_y_8gf(weights=None, num_classes=a.classes)
        self.teacher.requires_grad_(False)

    def on_train_start(self):
        self.teacher.eval()

    def training_step(self, batch, _):
        x, y = batch
        with torch.no_grad():
            taught = self.teacher(x).argmax(-1)
        cls, dist = self.student(x)
        loss = 0.5 * F.cross_entropy(cls, y) + 0.5 * F.cross_entropy(dist, taught)
        self.log_dict(
            {"loss": loss, "agree": (dist.argmax(-1) == taught).float().mean()}, prog_bar=True
        )
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        cls, dist = self.student(x)
        logits = (cls.softmax(-1) + dist.softmax(-1)) / 2
        self.log("val_acc", (logits.argmax(-1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.student.parameters(), lr=5e-4, weight_decay=0.05)
        warm = torch.optim.lr_scheduler.LinearLR(opt, 0.01, total_iters=5)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=40)
        return [opt], [
            {
                "scheduler": torch.optim.lr_scheduler.SequentialLR(opt, [warm, cosine], [5]),
                "interval": "step",
            }
        ]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--hidden", type=int, default=384)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--classes", type=int, default=100)
    p.add_argument("--batch", type=int, default=96)
    p.add_argument("--train", type=int, default=1500)
    p.add_argument("--valid", type=int, default=400)
    p.add_argument("--epochs", type=int, default=2)
    a = p.parse_args()
    L.seed_everything(0, workers=True)
    train = DataLoader(Blobs(a.train, a.size, a.classes, 1), a.batch, shuffle=True, num_workers=2)
    valid = DataLoader(Blobs(a.valid, a.size, a.classes, 2), 128)
    trainer = L.Trainer(
        max_epochs=a.epochs,
        accelerator="gpu",
        devices=1,
        precision="16-mixed",
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        log_every_n_steps=5,
    )
    module = Distill(a)
    trainer.fit(module, train, valid)
    torch.save(module.student.state_dict(), "deit_student.pt")


if __name__ == "__main__":
    main()
