"""A character GRU on verses made up on the spot: hidden state carried over, gradients clipped, verses at the end."""

import argparse
import random
import string

import torch
from torch import nn

parser = argparse.ArgumentParser(description="char-rnn")
parser.add_argument("--chars", type=int, default=1_500_000)
parser.add_argument("--hidden-size", type=int, default=1280)
parser.add_argument("--n-layers", type=int, default=3)
parser.add_argument("--chunk-len", type=int, default=200)
parser.add_argument("--batch-size", type=int, default=160)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--learning-rate", type=float, default=2e-3)
parser.add_argument("--predict-len", type=int, default=150)
parser.add_argument("--temperatures", type=float, nargs="+", default=[0.5, 0.8, 1.1])
parser.add_argument("--poems", type=int, default=8)
args = parser.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
vocabulary = string.printable
index = {c: i for i, c in enumerate(vocabulary)}


def make_text(length):
    rng = random.Random(12)
    words = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 9))) for _ in range(400)]
    lines = []
    size = 0
    while size < length:
        line = " ".join(rng.choices(words, k=rng.randint(4, 8))).capitalize() + rng.choice(",.;!")
        lines.append(line)
        size += len(line) + 1
    return "\n".join(lines)[:length]


class CharRNN(nn.Module):
    def __init__(self, n_characters, hidden_size, n_layers):
        super().__init__()
        self.hidden_size, self.n_layers = hidden_size, n_layers
        self.encoder = nn.Embedding(n_characters, 128)
        self.gru = nn.GRU(128, hidden_size, n_layers, batch_first=True, dropout=0.2)
        self.decoder = nn.Linear(hidden_size, n_characters)

    def forward(self, x, hidden=None):
        output, hidden = self.gru(self.encoder(x), hidden)
        return self.decoder(output), hidden

    def init_hidden(self, batch_size):
        return torch.zeros(self.n_layers, batch_size, self.hidden_size, device=device)


def batches(ids, batch_size, chunk_len):
    """Rows that go on from batch to batch, and the next character of each."""
    rows = (len(ids) - 1) // batch_size
    x = ids[: rows * batch_size].view(batch_size, rows)
    y = ids[1 : rows * batch_size + 1].view(batch_size, rows)
    for i in range(0, rows, chunk_len):
        yield x[:, i : i + chunk_len].to(device), y[:, i : i + chunk_len].to(device)


@torch.no_grad()
def generate(model, prime, predict_len, temperature, count):
    model.eval()
    x = torch.tensor([[index[c] for c in prime]] * count, device=device)
    logits, hidden = model(x, model.init_hidden(count))
    out = []
    for _ in range(predict_len):
        distribution = logits[:, -1].div(temperature).exp()
        x = torch.multinomial(distribution, 1)
        out.append(x)
        logits, hidden = model(x, hidden)
    ids = torch.cat(out, 1).cpu().tolist()
    return [prime + "".join(vocabulary[i] for i in row) for row in ids]


text = make_text(args.chars)
ids = torch.tensor([index[c] for c in text])
cut = int(len(ids) * 0.95)
train, held_out = ids[:cut], ids[cut:]
torch.manual_seed(0)
model = CharRNN(len(vocabulary), args.hidden_size, args.n_layers).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=args.learning_rate)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)
print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(ids):,} characters")

for epoch in range(1, args.epochs + 1):
    model.train()
    hidden = model.init_hidden(args.batch_size)
    for step, (x, y) in enumerate(batches(train, args.batch_size, args.chunk_len)):
        hidden = hidden.detach()
        model.zero_grad()
        logits, hidden = model(x, hidden)
        loss = criterion(logits.reshape(-1, len(vocabulary)), y.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step % 10 == 0:
            print(f"epoch {epoch} step {step}: {loss.item():.3f}")
    scheduler.step()
    model.eval()
    with torch.no_grad():
        losses = []
        hidden = model.init_hidden(32)
        for x, y in batches(held_out, 32, args.chunk_len):
            logits, hidden = model(x, hidden)
            losses.append(criterion(logits.flatten(0, 1), y.flatten()).item())
    print(f"epoch {epoch}: held out {sum(losses) / len(losses):.3f}")
    torch.save(model, f"char-rnn-{epoch}.pt")

for temperature in args.temperatures:
    poems = generate(model, "The ", args.predict_len, temperature, args.poems)
    print(f"--- temperature {temperature}\n{poems[0]}")
