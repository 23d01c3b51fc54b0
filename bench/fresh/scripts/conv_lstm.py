"""Gates of convolutions carry a picture of memory from frame to frame; the next frame is guessed."""

import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.width = width
        self.gates = nn.Conv2d(inputs + width, 4 * width, 5, padding=2)

    def forward(self, x, state):
        hidden, memory = state
        enter, forget, out, new = self.gates(torch.cat([x, hidden], dim=1)).chunk(4, dim=1)
        memory = forget.sigmoid() * memory + enter.sigmoid() * new.tanh()
        hidden = out.sigmoid() * memory.tanh()
        return hidden, memory


class Forecast(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.enter = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.cells = nn.ModuleList([Cell(width, width), Cell(width, 2 * width)])
        self.leave = nn.ConvTranspose2d(2 * width, 1, 4, stride=2, padding=1)

    def forward(self, frames):
        states = [None] * len(self.cells)
        guesses = []
        for frame in frames.unbind(dim=1):
            x = nn.functional.leaky_relu(self.enter(frame), 0.2)
            for index, cell in enumerate(self.cells):
                if states[index] is None:
                    empty = x.new_zeros(x.shape[0], cell.width, *x.shape[2:])
                    states[index] = (empty, empty)
                states[index] = cell(x, states[index])
                x = states[index][0]
            guesses.append(self.leave(x))
        return torch.stack(guesses, dim=1)


def workload(batch=9, frames=14, image=72, width=44):
    clips = torch.rand(batch, frames + 1, 1, image, image)

    def loss(model, given):
        return nn.functional.mse_loss(model(given[:, :-1]), given[:, 1:])

    return {"model": Forecast(width), "batch": lambda: clips, "loss": loss}
