"""Skin pictures with Lightning: a DenseNet thawed after the first epoch, early stopping, the best one tested."""

import lightning as L
import torch
import torch.nn.functional as F
import torchvision
from lightning.pytorch.callbacks import BackboneFinetuning, EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import MulticlassAccuracy

SIZE, CLASSES = 224, 9
TRAIN, VAL, TEST = 1280, 256, 600
BATCH, TEST_BATCH = 64, 200
EPOCHS = 3


class SkinDataset(Dataset):
    def __init__(self, count, seed):
        self.labels = torch.randint(
            0, CLASSES, (count,), generator=torch.Generator().manual_seed(seed)
        )
        self.seed = seed

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100_003 + i)
        x = torch.rand(3, SIZE, SIZE, generator=g)
        return x * 0.5 + self.labels[i] / (2 * CLASSES), self.labels[i]


class SkinData(L.LightningDataModule):
    def setup(self, stage):
        self.sets = {
            "train": SkinDataset(TRAIN, 1),
            "val": SkinDataset(VAL, 2),
            "test": SkinDataset(TEST, 3),
        }

    def train_dataloader(self):
        return DataLoader(
            self.sets["train"],
            BATCH,
            shuffle=True,
            num_workers=4,
            pin_memory=True,
            persistent_workers=True,
        )

    def val_dataloader(self):
        return DataLoader(self.sets["val"], BATCH, num_workers=2)

    def test_dataloader(self):
        return DataLoader(self.sets["test"], TEST_BATCH, num_workers=4)


class SkinModel(L.LightningModule):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        net = torchvision.models.densenet169()
        self.backbone = net.features
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(1664, CLASSES))
        self.accuracy = MulticlassAccuracy(CLASSES)
        self.test_accuracy = MulticlassAccuracy(CLASSES)

    def forward(self, x):
        x = F.relu(self.backbone(x), inplace=True)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))

    def training_step(self, batch, _):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        logits = self(x)
        self.accuracy(logits, y)
        self.log("val_loss", F.cross_entropy(logits, y))
        self.log("val_acc", self.accuracy)

    def test_step(self, batch, _):
        x, y = batch
        # mean over the picture and its mirror
        logits = self(torch.cat([x, x.flip(-1)])).view(2, len(x), -1).mean(0)
        self.test_accuracy(logits, y)
        self.log("test_acc", self.test_accuracy)

    def configure_optimizers(self):
        trainable = [p for p in self.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(trainable, self.hparams.lr, momentum=0.9, nesterov=True)
        return [optimizer], [torch.optim.lr_scheduler.MultiStepLR(optimizer, [2])]


if __name__ == "__main__":
    L.seed_everything(4)
    checkpoint = ModelCheckpoint("skin", monitor="val_loss", save_top_k=1)
    trainer = L.Trainer(
        accelerator="gpu",
        devices=1,
        precision="16-mixed",
        max_epochs=EPOCHS,
        gradient_clip_val=1.0,
        callbacks=[
            BackboneFinetuning(
                unfreeze_backbone_at_epoch=1, backbone_initial_ratio_lr=0.1, verbose=True
            ),
            EarlyStopping("val_loss", patience=2),
            checkpoint,
        ],
        enable_progress_bar=False,
        logger=False,
    )
    data = SkinData()
    trainer.fit(SkinModel(), datamodule=data)
    print(trainer.test(ckpt_path="best", datamodule=data, weights_only=False))
