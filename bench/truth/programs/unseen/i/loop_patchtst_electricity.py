"""Forecast 4 days of 321 electricity meters from two weeks: PatchTST in bf16 autocast with an EMA of the weights."""

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset
from transformers import PatchTSTConfig, PatchTSTForPrediction

DEVICE = "cuda"
METERS = 321
CONTEXT, HORIZON = 336, 96
PATCH, STRIDE = 16, 8
BATCH, TEST_BATCH = 6, 20
HOURS = 3000
STEPS = 24
EVERY = 12
D_MODEL, LAYERS, HEADS, FFN = 256, 6, 16, 512


class Windows(Dataset):
    def __init__(self, series, stride):
        self.series = series
        self.starts = range(0, len(series) - CONTEXT - HORIZON + 1, stride)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        s = self.starts[i]
        return self.series[s : s + CONTEXT], self.series[s + CONTEXT : s + CONTEXT + HORIZON]


def electricity():
    t = torch.arange(HOURS)[:, None]
    phase = torch.rand(METERS) * 6.28
    daily, weekly = (
        torch.sin(2 * torch.pi * t / 24 + phase),
        torch.sin(2 * torch.pi * t / 168 + phase),
    )
    return (daily + 0.4 * weekly + 0.2 * torch.randn(HOURS, METERS)).float()


@torch.no_grad()
def test(model, loader):
    model.eval()
    se = ae = n = 0
    for past, future in loader:
        past, future = past.to(DEVICE), future.to(DEVICE)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            guess = model(past_values=past).prediction_outputs
        error = guess.float() - future
        se += error.square().sum().item()
        ae += error.abs().sum().item()
        n += error.numel()
    return se / n, ae / n


def main():
    config = PatchTSTConfig(
        num_input_channels=METERS,
        context_length=CONTEXT,
        prediction_length=HORIZON,
        patch_length=PATCH,
        patch_stride=STRIDE,
        d_model=D_MODEL,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        ffn_dim=FFN,
        attention_dropout=0.2,
        ff_dropout=0.2,
        head_dropout=0.2,
        norm_type="batchnorm",
        scaling="std",
        loss="mse",
    )
    model = PatchTSTForPrediction(config).to(DEVICE)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.98), use_buffers=True)
    optimizer = torch.optim.RAdam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=STEPS)

    series = electricity()
    cut = int(HOURS * 0.75)
    train = DataLoader(Windows(series[:cut], 2), batch_size=BATCH, shuffle=True, drop_last=True)
    held = DataLoader(Windows(series[cut:], 8), batch_size=TEST_BATCH)

    step = 0
    while step < STEPS:
        for past, future in train:
            model.train()
            past, future = past.to(DEVICE, non_blocking=True), future.to(DEVICE, non_blocking=True)
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                loss = model(past_values=past, future_values=future).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            average.update_parameters(model)
            step += 1
            if step % 4 == 0:
                print(f"step {step} loss {loss.item():.4f}")
            if step % EVERY == 0:
                print(
                    "raw mse/mae %.4f %.4f" % test(model, held),
                    "ema %.4f %.4f" % test(average.module, held),
                )
            if step == STEPS:
                break
    torch.save(
        {"ema": average.module.state_dict(), "optimizer": optimizer.state_dict()}, "patchtst.pt"
    )


if __name__ == "__main__":
    main()
