"""Big-vocabulary LSTM language model: projected LSTM layers, adaptive softmax, truncated BPTT, Adagrad, plateau schedule, evaluation."""

import time

import torch
from torch import nn

VOCAB = 200_000
CUTOFFS = [4000, 20_000, 80_000]
EMBED = 512
HIDDEN = 2048
PROJECT = 512
LAYERS = 2
BATCH = 256
BPTT = 64
TRAIN_TOKENS = 256 * 64 * 12
EPOCHS = 2


class BigLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, EMBED)
        self.drop = nn.Dropout(0.1)
        self.rnn = nn.LSTM(EMBED, HIDDEN, LAYERS, dropout=0.1, proj_size=PROJECT)
        self.decoder = nn.AdaptiveLogSoftmaxWithLoss(PROJECT, VOCAB, CUTOFFS, div_value=4.0)

    def forward(self, tokens, targets, state):
        out, state = self.rnn(self.drop(self.embed(tokens)), state)
        result = self.decoder(self.drop(out).flatten(0, 1), targets.flatten())
        return result.loss, state


def zipf(n, seed):
    g = torch.Generator().manual_seed(seed)
    u = torch.rand(n, generator=g)
    return ((VOCAB**u - 1).clamp(max=VOCAB - 1)).long()


def columns(stream):
    n = len(stream) // BATCH
    return stream[: n * BATCH].view(BATCH, n).t().contiguous()


def detach(state):
    return None if state is None else tuple(s.detach() for s in state)


def run(model, data, device, optimizer=None):
    model.train(optimizer is not None)
    state, total, chunks = None, 0.0, 0
    for start in range(0, data.size(0) - 1, BPTT):
        length = min(BPTT, data.size(0) - 1 - start)
        x = data[start : start + length].to(device)
        y = data[start + 1 : start + 1 + length].to(device)
        loss, state = model(x, y, detach(state))
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.rnn.parameters(), 1.0)
            optimizer.step()
        total += loss.item()
        chunks += 1
    return total / chunks


def main():
    torch.manual_seed(50)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = BigLSTM().to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1, initial_accumulator_value=1.0)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    train, valid = columns(zipf(TRAIN_TOKENS, 1)), columns(zipf(TRAIN_TOKENS // 4, 2))
    for epoch in range(EPOCHS):
        t = time.time()
        train_loss = run(model, train, device, optimizer)
        with torch.no_grad():
            valid_loss = run(model, valid, device)
        plateau.step(valid_loss)
        print(f"epoch {epoch}: {train_loss:.3f} / {valid_loss:.3f} in {time.time() - t:.1f} s")


if __name__ == "__main__":
    main()
