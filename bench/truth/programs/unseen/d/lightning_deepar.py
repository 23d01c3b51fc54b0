"""DeepAR with Lightning: an LSTM gives a distribution for each hour; then 100 futures of each series are drawn."""

import argparse

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.distributions import StudentT
from torch.utils.data import DataLoader, Dataset


class Load(Dataset):
    """Hours of electric load: a day, a week, a trend, and noise."""

    def __init__(self, series, context, horizon, count, seed):
        g = torch.Generator().manual_seed(seed)
        hours = torch.arange(24 * 7 * 8).float()
        phase = torch.rand(series, 1, generator=g) * 24
        level = torch.rand(series, 1, generator=g) * 5 + 1
        day = torch.sin((hours + phase) * 6.2832 / 24)
        week = torch.cos(hours * 6.2832 / 168)
        noise = torch.randn(series, len(hours), generator=g)
        self.values = level * (1.5 + day + 0.3 * week) + 0.2 * noise
        self.window, self.count = context + horizon, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        s = (i * 37) % len(self.values)
        t = (i * 101) % (self.values.shape[1] - self.window - 1)
        hour = torch.arange(t, t + self.window)
        time = torch.stack([(hour % 24) / 23.0 - 0.5, (hour % 168) / 167.0 - 0.5], -1)
        return s, self.values[s, t : t + self.window + 1], time


class LoadData(L.LightningDataModule):
    def __init__(self, args):
        super().__init__()
        self.args = args

    def _loader(self, share, batch, seed, shuffle=False):
        a = self.args
        data = Load(a.series, a.context, a.horizon, int(a.windows * share), seed)
        return DataLoader(data, batch_size=batch, shuffle=shuffle, num_workers=2, drop_last=shuffle)

    def train_dataloader(self):
        return self._loader(1.0, self.args.batch, 0, True)

    def val_dataloader(self):
        return self._loader(0.2, self.args.batch * 2, 1)

    def predict_dataloader(self):
        return self._loader(0.1, self.args.batch, 2)


class DeepAR(L.LightningModule):
    def __init__(self, series, context, horizon, hidden, layers, draws, lr):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Embedding(series, 32)
        self.rnn = nn.LSTM(1 + 2 + 32, hidden, layers, batch_first=True, dropout=0.1)
        self.project = nn.Linear(hidden, 3)

    def distribution(self, h, scale):
        df, loc, width = self.project(h).float().unbind(-1)
        softplus = nn.functional.softplus
        return StudentT(2 + softplus(df), loc * scale, softplus(width) * scale + 1e-4)

    def run(self, past, time, series, state=None):
        static = self.embed(series)[:, None].expand(-1, past.shape[1], -1)
        return self.rnn(torch.cat([past[..., None], time, static], -1), state)

    def nll(self, batch):
        series, values, time = batch
        scale = values[:, : self.hparams.context].abs().mean(1, keepdim=True) + 0.1
        h, _ = self.run(values[:, :-1] / scale, time, series)
        return -self.distribution(h, scale).log_prob(values[:, 1:]).mean()

    def training_step(self, batch, _):
        loss = self.nll(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", self.nll(batch), prog_bar=True)

    def predict_step(self, batch, _):
        series, values, time = batch
        c, n = self.hparams.context, self.hparams.draws
        scale = values[:, :c].abs().mean(1, keepdim=True) + 0.1
        h, state = self.run(values[:, :c] / scale, time[:, :c], series)
        state = tuple(s.repeat_interleave(n, 1) for s in state)
        series, scale = series.repeat_interleave(n), scale.repeat_interleave(n, 0)
        last = self.distribution(h[:, -1:].repeat_interleave(n, 0), scale).sample()
        future = [last]
        for step in range(c, c + self.hparams.horizon - 1):
            moment = time[:, step : step + 1].repeat_interleave(n, 0)
            h, state = self.run(last / scale, moment, series, state)
            last = self.distribution(h, scale).sample()
            future.append(last)
        paths = torch.cat(future, 1).view(-1, n, self.hparams.horizon)
        return paths.quantile(torch.tensor([0.1, 0.5, 0.9], device=paths.device), dim=1).cpu()

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": plateau, "monitor": "val_loss"},
        }


def main():
    p = argparse.ArgumentParser()
    for name, value in {
        "series": 370,
        "context": 168,
        "horizon": 24,
        "windows": 8000,
        "batch": 256,
        "hidden": 768,
        "layers": 3,
        "draws": 100,
        "epochs": 3,
    }.items():
        p.add_argument(f"--{name}", type=int, default=value)
    a = p.parse_args()
    L.seed_everything(9)
    model = DeepAR(a.series, a.context, a.horizon, a.hidden, a.layers, a.draws, 1e-3)
    trainer = L.Trainer(
        max_epochs=a.epochs,
        accelerator="auto",
        devices=1,
        gradient_clip_val=10.0,
        callbacks=[
            EarlyStopping("val_loss", patience=5),
            ModelCheckpoint(monitor="val_loss", dirpath="deepar", save_top_k=1),
        ],
        logger=False,
        enable_progress_bar=False,
    )
    data = LoadData(a)
    trainer.fit(model, datamodule=data)
    bands = torch.cat(trainer.predict(model, datamodule=data), 1)
    print(f"{bands.shape[1]} series, mean width {(bands[2] - bands[0]).mean().item():.3f}")


if __name__ == "__main__":
    main()
