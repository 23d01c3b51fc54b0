"""S3D (separable 3D Inception) on clips of kitchen actions with Lightning: 16-mixed, accumulated gradients, test pass over three views."""

import os
import tempfile

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models.video import s3d

ACTIONS = 24
FRAMES, SIDE = 16, 224
BATCH = 14
ACCUM = 2
MAX_STEPS = 16  # optimizer steps
PRECISION = "16-mixed"
WORKERS = 4


class KitchenClips(Dataset):
    def __init__(self, n, views=1, seed=0):
        self.n, self.views, self.seed = n, views, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 9_973 + i)
        small = torch.randint(
            0, 256, (self.views, 3, FRAMES, SIDE // 8, SIDE // 8), generator=g, dtype=torch.uint8
        )
        clip = small.repeat_interleave(8, -1).repeat_interleave(8, -2)
        return clip.squeeze(0), i % ACTIONS


class ActionNet(pl.LightningModule):
    def __init__(self, lr=0.05):
        super().__init__()
        self.net = s3d(weights=None, num_classes=ACTIONS, dropout=0.3)
        self.lr = lr
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.hits = []

    @staticmethod
    def scale(clip):
        return clip.float().div_(255).sub_(0.45).div_(0.225)

    def training_step(self, batch, batch_idx):
        clip, y = batch
        loss = self.criterion(self.net(self.scale(clip)), y)
        self.log("loss", loss)
        if batch_idx % 8 == 0:
            self.print(f"batch {batch_idx}: {loss.item():.3f}")
        return loss

    def test_step(self, batch, batch_idx):
        views, y = batch
        b, v = views.shape[:2]
        logits = self.net(self.scale(views.flatten(0, 1))).view(b, v, -1).softmax(-1).mean(1)
        self.hits.append((logits.topk(5, 1).indices == y[:, None]).any(1).float())

    def on_test_epoch_end(self):
        self.log("top5", torch.cat(self.hits).mean())
        self.hits.clear()

    def configure_optimizers(self):
        decay, free = [], []
        for p in self.parameters():
            (decay if p.ndim > 1 else free).append(p)
        opt = torch.optim.SGD(
            [{"params": decay, "weight_decay": 1e-4}, {"params": free, "weight_decay": 0}],
            lr=self.lr,
            momentum=0.9,
            nesterov=True,
        )
        return [opt], [
            {
                "scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(opt, MAX_STEPS),
                "interval": "step",
            }
        ]


def main():
    pl.seed_everything(1234)
    train = DataLoader(
        KitchenClips(BATCH * ACCUM * MAX_STEPS, seed=1),
        BATCH,
        shuffle=True,
        num_workers=WORKERS,
        pin_memory=True,
        persistent_workers=WORKERS > 0,
    )
    test = DataLoader(KitchenClips(BATCH * 2, views=3, seed=2), BATCH // 2, num_workers=WORKERS)
    model = ActionNet()
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(
            default_root_dir=folder,
            max_steps=MAX_STEPS,
            accumulate_grad_batches=ACCUM,
            precision=PRECISION,
            gradient_clip_val=40.0,
            benchmark=True,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
        )
        trainer.fit(model, train)
        trainer.test(model, test)
        trainer.save_checkpoint(os.path.join(folder, "last.ckpt"))


if __name__ == "__main__":
    main()
