"""Speech with Lightning: an LSTM over spectrograms, CTC, clipping, a checkpoint of the best epoch."""

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spoken(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(400, 80, generator=g), torch.randint(1, 29, (40,), generator=g)


class Listener(L.LightningModule):
    def __init__(self, width=384):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 32, 3, (2, 2), 1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, (1, 2), 1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )
        self.rnn = nn.LSTM(32 * 20, width, 3, batch_first=True, bidirectional=True, dropout=0.1)
        self.out = nn.Linear(2 * width, 29)
        self.loss = nn.CTCLoss(zero_infinity=True)

    def forward(self, x):
        x = self.conv(x[:, None])
        x = x.transpose(1, 2).flatten(2)
        return self.out(self.rnn(x)[0]).log_softmax(-1)

    def shared(self, batch):
        x, y = batch
        p = self(x).transpose(0, 1)
        inputs = torch.full((len(x),), p.shape[0], dtype=torch.long)
        return self.loss(p, y, inputs, torch.full((len(x),), y.shape[1], dtype=torch.long))

    def training_step(self, batch, index):
        loss = self.shared(batch)
        self.log("train", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        self.log("val", self.shared(batch), prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 3e-4)
        return [optimizer], [
            {
                "scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100),
                "interval": "step",
            }
        ]


data = Spoken()
trainer = L.Trainer(
    max_epochs=3, accelerator="gpu", devices=1, precision="16-mixed", gradient_clip_val=1.0, accumulate_grad_batches=2,
    logger=False, callbacks=[ModelCheckpoint(monitor="val", save_top_k=1)], enable_progress_bar=False,
)  # fmt: skip
trainer.fit(Listener(), DataLoader(data, 32, shuffle=True, num_workers=2), DataLoader(data, 64))
