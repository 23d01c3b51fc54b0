"""
Swin-T fine-tuning with manual optimization: AdamW on the backbone every second batch,
SGD on the heads every batch. Two tasks (species, health score), uncertainty-weighted.
"""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score
from transformers import SwinConfig, SwinModel

NUM_SPECIES = 120
IMAGE = 224
BATCH = 64
TRAIN_IMAGES = 1024
VAL_IMAGES = 256
EMBED = 96
DEPTHS = [2, 2, 6, 2]
BACKBONE_EVERY = 2


class Plants(L.LightningModule):
    def __init__(self, backbone_lr=5e-5, head_lr=1e-2):
        super().__init__()
        self.automatic_optimization = False
        self.save_hyperparameters()
        config = SwinConfig(
            image_size=IMAGE,
            embed_dim=EMBED,
            depths=DEPTHS,
            num_heads=[3, 6, 12, 24],
            drop_path_rate=0.2,
        )
        self.backbone = SwinModel(config)
        width = config.hidden_size
        self.species = nn.Sequential(
            nn.LayerNorm(width), nn.Dropout(0.3), nn.Linear(width, NUM_SPECIES)
        )
        self.health = nn.Sequential(nn.Linear(width, 256), nn.GELU(), nn.Linear(256, 1))
        self.log_sigma = nn.Parameter(torch.zeros(2))
        self.ce = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.acc = MulticlassAccuracy(NUM_SPECIES)
        self.f1 = MulticlassF1Score(NUM_SPECIES)
        self.val_outputs = []

    def forward(self, x):
        x = (x.float() / 255 - 0.45) / 0.22
        features = self.backbone(x).pooler_output
        return self.species(features), self.health(features).squeeze(-1)

    def losses(self, batch):
        x, y, h = batch
        logits, score = self(x)
        l1 = self.ce(logits, y)
        l2 = nn.functional.smooth_l1_loss(score.float(), h)
        total = (torch.stack([l1, l2]) * torch.exp(-self.log_sigma) + self.log_sigma).sum()
        return total, l1, l2, logits, score

    def training_step(self, batch, batch_idx):
        opt_b, opt_h = self.optimizers()
        sch_b, sch_h = self.lr_schedulers()
        total, l1, l2, logits, _ = self.losses(batch)
        self.manual_backward(total)
        self.clip_gradients(opt_h, gradient_clip_val=5.0, gradient_clip_algorithm="norm")
        opt_h.step()
        opt_h.zero_grad()
        sch_h.step()
        if (batch_idx + 1) % BACKBONE_EVERY == 0:
            self.clip_gradients(opt_b, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
            opt_b.step()
            opt_b.zero_grad()
            sch_b.step()
        self.log_dict({"total": total.detach(), "species": l1.detach(), "health": l2.detach()})
        if batch_idx % 4 == 0:
            print(
                f"[{self.current_epoch}:{batch_idx}] {l1.item():.3f} {l2.item():.3f} sigma {self.log_sigma.tolist()}"
            )

    def validation_step(self, batch, batch_idx):
        total, l1, l2, logits, score = self.losses(batch)
        self.acc.update(logits, batch[1])
        self.f1.update(logits, batch[1])
        self.val_outputs.append((score.detach().float(), batch[2]))

    def on_validation_epoch_end(self):
        score = torch.cat([o[0] for o in self.val_outputs])
        truth = torch.cat([o[1] for o in self.val_outputs])
        self.val_outputs.clear()
        print(
            f"val acc {self.acc.compute():.4f} f1 {self.f1.compute():.4f} "
            f"rmse {((score - truth) ** 2).mean().sqrt():.4f}"
        )
        self.acc.reset()
        self.f1.reset()

    def configure_optimizers(self):
        heads = [*self.species.parameters(), *self.health.parameters(), self.log_sigma]
        opt_b = torch.optim.AdamW(
            self.backbone.parameters(), lr=self.hparams.backbone_lr, weight_decay=0.05
        )
        opt_h = torch.optim.SGD(heads, lr=self.hparams.head_lr, momentum=0.9, nesterov=True)
        sch_b = torch.optim.lr_scheduler.CosineAnnealingLR(opt_b, T_max=50)
        sch_h = torch.optim.lr_scheduler.StepLR(opt_h, step_size=20, gamma=0.5)
        return [opt_b, opt_h], [sch_b, sch_h]


def images(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (n, 3, IMAGE, IMAGE), generator=g, dtype=torch.uint8)
    return TensorDataset(
        x, torch.randint(0, NUM_SPECIES, (n,), generator=g), torch.rand(n, generator=g)
    )


def main():
    L.seed_everything(5)
    train = DataLoader(images(TRAIN_IMAGES, 0), batch_size=BATCH, shuffle=True, drop_last=True)
    val = DataLoader(images(VAL_IMAGES, 1), batch_size=BATCH * 2)
    trainer = L.Trainer(
        max_epochs=3,
        accelerator="auto",
        devices=1,
        precision="bf16-mixed",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        log_every_n_steps=5,
    )
    model = Plants()
    trainer.fit(model, train, val)
    trainer.validate(model, val, verbose=False)
    trainer.save_checkpoint("plants.ckpt", weights_only=True)


if __name__ == "__main__":
    main()
