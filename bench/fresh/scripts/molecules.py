"""Properties of molecules: messages along bonds with a matrix for each, a GRU cell for the atoms."""

import torch
from torch import nn


class Messages(nn.Module):
    def __init__(self, atom, bond, width, rounds, targets):
        super().__init__()
        self.rounds, self.width = rounds, width
        self.atoms = nn.Linear(atom, width)
        self.bonds = nn.Sequential(nn.Linear(bond, 96), nn.ReLU(), nn.Linear(96, width * width))
        self.update = nn.GRUCell(width, width)
        self.gate, self.value = nn.Linear(2 * width, width), nn.Linear(width, width)
        self.out = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, targets))

    def forward(self, given):
        atoms, bonds, ends, graph, graphs = given
        start = state = torch.relu(self.atoms(atoms))
        matrices = self.bonds(bonds).view(-1, self.width, self.width)
        for _ in range(self.rounds):
            sent = torch.bmm(matrices, state[ends[0]].unsqueeze(2)).squeeze(2)
            received = torch.zeros_like(state).index_add(0, ends[1], sent)
            state = self.update(received, state)
        read = torch.sigmoid(self.gate(torch.cat([state, start], dim=1))) * self.value(state)
        return self.out(read.new_zeros(graphs, self.width).index_add(0, graph, read))


def workload(graphs=512, atoms=24, atom=40, bond=12, width=64, rounds=5, targets=12):
    count, pairs = graphs * atoms, graphs * atoms * 2
    # Bonds stay within their molecule.
    first = torch.arange(pairs) // 2
    second = first // atoms * atoms + torch.randint(0, atoms, (pairs,))
    molecules = (
        torch.randn(count, atom),
        torch.randn(pairs, bond),
        torch.stack([first, second]),
        torch.arange(count) // atoms,
        graphs,
    )
    answers = torch.randn(graphs, targets)

    return {
        "model": Messages(atom, bond, width, rounds, targets),
        "batch": (molecules, answers),
        "loss": lambda model, made: nn.functional.smooth_l1_loss(model(made[0]), made[1]),
    }
