"""Finds the batch whose step needs about three times the cap. Prints {batch, baseBytes, bytesPerSample}."""

import torch

from common import CAP_BYTES, LONGER_AT, TINY, answer, gpt2, tokens

import plimsoll

model = gpt2()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
step = plimsoll.recovering(model, optimizer, lambda b: model(**b).loss)
for size in (2, 2, 4, 4, 8, 8):
    step.microbatch = size
    step(tokens(LONGER_AT, size, model.config.vocab_size))
line = step.report()["peakLine"] or {"baseBytes": 0, "bytesPerSample": 0}
fits = (
    int((3.1 * CAP_BYTES - line["baseBytes"]) // line["bytesPerSample"])
    if line["bytesPerSample"]
    else 0
)
answer(batch=8 if TINY or not fits else fits - fits % 4, **line)
