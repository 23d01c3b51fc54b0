"""Lines of handwriting to letters: convolutions, a bidirectional LSTM over the columns, CTC."""

import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, letters, hidden):
        super().__init__()
        layers, inputs = [], 1
        for outputs, pool in ((64, 2), (128, 2), (256, None), (256, (2, 1)), (512, (2, 1))):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs)]
            layers += [nn.ReLU(True)] + ([nn.MaxPool2d(pool)] if pool else [])
            inputs = outputs
        self.features = nn.Sequential(*layers, nn.Conv2d(512, 512, (2, 1)), nn.ReLU(True))
        self.columns = nn.LSTM(512, hidden, 2, bidirectional=True, dropout=0.3)
        self.out = nn.Linear(2 * hidden, letters)

    def forward(self, images):
        x = self.features(images).squeeze(2).permute(2, 0, 1)
        return self.out(self.columns(x)[0]).log_softmax(dim=2)


def workload(batch=72, width=512, letters=90, hidden=256, longest=40):
    images = torch.rand(batch, 1, 32, width)
    text = torch.randint(1, letters, (batch, longest))

    def loss(model, given):
        scores = model(given[0])
        columns = torch.full((batch,), scores.shape[0], dtype=torch.long, device="cpu")
        lengths = torch.full((batch,), longest, dtype=torch.long, device="cpu")
        return nn.functional.ctc_loss(scores, given[1], columns, lengths, zero_infinity=True)

    return {"model": Reader(letters, hidden), "batch": (images, text), "loss": loss}
