"""Forecast the load of 64 substations with PatchTSMixer in Lightning: channel mixing, bf16-mixed, validation with a doubled batch, prediction at the end."""

import lightning as L
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import PatchTSMixerConfig, PatchTSMixerForPrediction

STATIONS = 64
CONTEXT = 512
AHEAD = 96
BATCH = 32


class Load(Dataset):
    """Sliding windows over one long made-up table."""

    def __init__(self, hours, seed, stride=4):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(hours)[:, None]
        phase = torch.rand(1, STATIONS, generator=g) * 24
        daily = torch.sin((t + phase) * 2 * torch.pi / 24)
        weekly = torch.cos((t + phase) * 2 * torch.pi / 168)
        self.table = daily + 0.5 * weekly + 0.2 * torch.randn(hours, STATIONS, generator=g)
        self.stride = stride

    def __len__(self):
        return (len(self.table) - CONTEXT - AHEAD) // self.stride

    def __getitem__(self, i):
        s = i * self.stride
        return {
            "past_values": self.table[s : s + CONTEXT],
            "future_values": self.table[s + CONTEXT : s + CONTEXT + AHEAD],
        }


class Forecaster(L.LightningModule):
    def __init__(self, d_model=96, layers=6, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.model = PatchTSMixerForPrediction(
            PatchTSMixerConfig(
                context_length=CONTEXT,
                prediction_length=AHEAD,
                num_input_channels=STATIONS,
                patch_length=16,
                patch_stride=8,
                d_model=d_model,
                num_layers=layers,
                expansion_factor=3,
                mode="mix_channel",
                gated_attn=True,
                dropout=0.1,
                head_dropout=0.1,
                scaling="std",
                loss="mse",
            )
        )

    def training_step(self, batch, _):
        loss = self.model(**batch).loss
        self.log("train_mse", loss)
        return loss

    def validation_step(self, batch, _):
        out = self.model(**batch)
        self.log("val_mse", out.loss, prog_bar=True, batch_size=len(batch["past_values"]))
        mae = (out.prediction_outputs - batch["future_values"]).abs().mean()
        self.log("val_mae", mae, batch_size=len(batch["past_values"]))

    def predict_step(self, batch, _):
        return self.model(past_values=batch["past_values"], return_loss=False).prediction_outputs

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            self.hparams.lr,
            total_steps=self.trainer.estimated_stepping_batches,
        )
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def main():
    L.seed_everything(33)
    train = DataLoader(Load(3400, 1), batch_size=BATCH, shuffle=True, drop_last=True, num_workers=2)
    valid = DataLoader(Load(1400, 2), batch_size=2 * BATCH)
    trainer = L.Trainer(
        max_epochs=2,
        accelerator="auto",
        devices=1,
        precision="bf16-mixed",
        gradient_clip_val=0.5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Forecaster()
    trainer.fit(model, train, valid)
    print({k: round(float(v), 4) for k, v in trainer.callback_metrics.items()})
    forecasts = trainer.predict(model, valid)
    print("forecasts", torch.cat([f.float() for f in forecasts]).shape)


if __name__ == "__main__":
    main()
