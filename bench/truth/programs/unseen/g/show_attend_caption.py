# Show, attend and tell: CNN encoder (fine-tuned from layer3 up), LSTMCell decoder with soft attention.
import time

import torch
import torch.optim
import torchvision
from torch import nn
from torch.backends import cudnn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, Dataset

# Model parameters
emb_dim = 512
attention_dim = 512
decoder_dim = 512
dropout = 0.5
device = torch.device("cuda")
cudnn.benchmark = True  # inputs to the model are fixed size

# Training parameters
image_side = 256
enc_side = 14
vocab_size = 9490
max_caption = 50
train_captions = 900
val_captions = 150
epochs = 2
batch_size = 32
workers = 4
encoder_lr = 1e-4
decoder_lr = 4e-4
grad_clip = 5.0
alpha_c = 1.0
print_freq = 10
START, END, PADDING = 1, 2, 0


class CaptionDataset(Dataset):
    def __init__(self, split):
        self.split = split
        self.size = train_captions if split == "TRAIN" else val_captions
        self.cpi = 5

    def __getitem__(self, i):
        g = torch.Generator().manual_seed((i // self.cpi) + (0 if self.split == "TRAIN" else 99999))
        img = torch.rand(3, image_side, image_side, generator=g)
        g2 = torch.Generator().manual_seed(i)
        n = int(torch.randint(8, max_caption, (1,), generator=g2))
        caption = torch.zeros(max_caption + 2, dtype=torch.long)
        caption[0] = START
        caption[1 : n + 1] = torch.randint(3, vocab_size, (n,), generator=g2)
        caption[n + 1] = END
        return img, caption, torch.LongTensor([n + 2])

    def __len__(self):
        return self.size


class Encoder(nn.Module):
    def __init__(self, encoded_image_size=14):
        super().__init__()
        resnet = torchvision.models.resnet101(weights=None)
        modules = list(resnet.children())[:-2]
        self.resnet = nn.Sequential(*modules)
        self.adaptive_pool = nn.AdaptiveAvgPool2d((encoded_image_size, encoded_image_size))
        self.fine_tune()

    def forward(self, images):
        out = self.resnet(images)
        out = self.adaptive_pool(out)
        return out.permute(0, 2, 3, 1)

    def fine_tune(self, fine_tune=True):
        for p in self.resnet.parameters():
            p.requires_grad = False
        # only fine-tune convolutional blocks 3 through 4
        for c in list(self.resnet.children())[6:]:
            for p in c.parameters():
                p.requires_grad = fine_tune


class Attention(nn.Module):
    def __init__(self, encoder_dim, decoder_dim, attention_dim):
        super().__init__()
        self.encoder_att = nn.Linear(encoder_dim, attention_dim)
        self.decoder_att = nn.Linear(decoder_dim, attention_dim)
        self.full_att = nn.Linear(attention_dim, 1)
        self.relu = nn.ReLU()
        self.softmax = nn.Softmax(dim=1)

    def forward(self, encoder_out, decoder_hidden):
        att1 = self.encoder_att(encoder_out)
        att2 = self.decoder_att(decoder_hidden)
        att = self.full_att(self.relu(att1 + att2.unsqueeze(1))).squeeze(2)
        alpha = self.softmax(att)
        return (encoder_out * alpha.unsqueeze(2)).sum(dim=1), alpha


class DecoderWithAttention(nn.Module):
    def __init__(self, encoder_dim=2048):
        super().__init__()
        self.attention = Attention(encoder_dim, decoder_dim, attention_dim)
        self.embedding = nn.Embedding(vocab_size, emb_dim)
        self.dropout = nn.Dropout(p=dropout)
        self.decode_step = nn.LSTMCell(emb_dim + encoder_dim, decoder_dim, bias=True)
        self.init_h = nn.Linear(encoder_dim, decoder_dim)
        self.init_c = nn.Linear(encoder_dim, decoder_dim)
        self.f_beta = nn.Linear(decoder_dim, encoder_dim)
        self.fc = nn.Linear(decoder_dim, vocab_size)

    def forward(self, encoder_out, encoded_captions, caption_lengths):
        batch = encoder_out.size(0)
        encoder_out = encoder_out.reshape(batch, -1, encoder_out.size(-1))
        num_pixels = encoder_out.size(1)
        caption_lengths, sort_ind = caption_lengths.squeeze(1).sort(dim=0, descending=True)
        encoder_out = encoder_out[sort_ind]
        encoded_captions = encoded_captions[sort_ind]
        embeddings = self.embedding(encoded_captions)
        mean = encoder_out.mean(dim=1)
        h, c = self.init_h(mean), self.init_c(mean)
        decode_lengths = (caption_lengths - 1).tolist()
        predictions = torch.zeros(batch, max(decode_lengths), vocab_size).to(device)
        alphas = torch.zeros(batch, max(decode_lengths), num_pixels).to(device)
        for t in range(max(decode_lengths)):
            batch_size_t = sum([l > t for l in decode_lengths])
            awe, alpha = self.attention(encoder_out[:batch_size_t], h[:batch_size_t])
            gate = torch.sigmoid(self.f_beta(h[:batch_size_t]))
            awe = gate * awe
            h, c = self.decode_step(
                torch.cat([embeddings[:batch_size_t, t, :], awe], dim=1),
                (h[:batch_size_t], c[:batch_size_t]),
            )
            predictions[:batch_size_t, t, :] = self.fc(self.dropout(h))
            alphas[:batch_size_t, t, :] = alpha
        return predictions, encoded_captions, decode_lengths, alphas, sort_ind


def clip_gradient(optimizer, grad_clip):
    for group in optimizer.param_groups:
        for param in group["params"]:
            if param.grad is not None:
                param.grad.data.clamp_(-grad_clip, grad_clip)


def topk_accuracy(scores, targets, k):
    _, ind = scores.topk(k, 1, True, True)
    correct = ind.eq(targets.view(-1, 1).expand_as(ind))
    return correct.view(-1).float().sum().item() * (100.0 / targets.size(0))


def run_epoch(
    loader, encoder, decoder, criterion, epoch, encoder_optimizer=None, decoder_optimizer=None
):
    training = decoder_optimizer is not None
    encoder.train(training)
    decoder.train(training)
    total_loss, total_acc, n = 0.0, 0.0, 0
    start = time.time()
    for i, (imgs, caps, caplens) in enumerate(loader):
        imgs, caps, caplens = imgs.to(device), caps.to(device), caplens.to(device)
        with torch.set_grad_enabled(training):
            features = encoder(imgs)
            scores, caps_sorted, decode_lengths, alphas, sort_ind = decoder(features, caps, caplens)
            targets = caps_sorted[:, 1:]
            scores = pack_padded_sequence(scores, decode_lengths, batch_first=True).data
            targets = pack_padded_sequence(targets, decode_lengths, batch_first=True).data
            loss = criterion(scores, targets)
            loss = loss + alpha_c * ((1.0 - alphas.sum(dim=1)) ** 2).mean()
        if training:
            decoder_optimizer.zero_grad()
            encoder_optimizer.zero_grad()
            loss.backward()
            clip_gradient(decoder_optimizer, grad_clip)
            clip_gradient(encoder_optimizer, grad_clip)
            decoder_optimizer.step()
            encoder_optimizer.step()
        total_loss += loss.item() * sum(decode_lengths)
        total_acc += topk_accuracy(scores, targets, 5) * sum(decode_lengths)
        n += sum(decode_lengths)
        if training and i % print_freq == 0:
            print(
                f"Epoch: [{epoch}][{i}/{len(loader)}]\tTime {time.time() - start:.1f}\tLoss {total_loss / n:.4f}\t"
                f"Top-5 Accuracy {total_acc / n:.3f}"
            )
    return total_loss / n, total_acc / n


@torch.no_grad()
def caption_image(encoder, decoder, image, beam=3, steps=20):
    encoder.eval()
    decoder.eval()
    enc = encoder(image.unsqueeze(0).to(device))
    enc = enc.reshape(1, -1, enc.size(-1)).expand(beam, -1, -1)
    seqs = torch.full((beam, 1), START, device=device)
    top = torch.zeros(beam, 1, device=device)
    mean = enc.mean(1)
    h, c = decoder.init_h(mean), decoder.init_c(mean)
    for step in range(steps):
        awe, _ = decoder.attention(enc, h)
        awe = torch.sigmoid(decoder.f_beta(h)) * awe
        h, c = decoder.decode_step(torch.cat([decoder.embedding(seqs[:, -1]), awe], 1), (h, c))
        scores = torch.log_softmax(decoder.fc(h), 1) + top
        flat = scores[0] if step == 0 else scores.view(-1)
        best, words = flat.topk(beam)
        prev = torch.div(words, vocab_size, rounding_mode="floor")
        seqs = torch.cat([seqs[prev], (words % vocab_size).unsqueeze(1)], 1)
        top, h, c = best.unsqueeze(1), h[prev], c[prev]
    return seqs[0].tolist()


def main():
    decoder = DecoderWithAttention().to(device)
    decoder_optimizer = torch.optim.Adam(
        params=filter(lambda p: p.requires_grad, decoder.parameters()), lr=decoder_lr
    )
    encoder = Encoder(enc_side).to(device)
    encoder_optimizer = torch.optim.Adam(
        params=filter(lambda p: p.requires_grad, encoder.parameters()), lr=encoder_lr
    )
    criterion = nn.CrossEntropyLoss().to(device)
    train_loader = DataLoader(
        CaptionDataset("TRAIN"),
        batch_size=batch_size,
        shuffle=True,
        num_workers=workers,
        pin_memory=True,
    )
    val_loader = DataLoader(
        CaptionDataset("VAL"),
        batch_size=batch_size,
        shuffle=True,
        num_workers=workers,
        pin_memory=True,
    )
    for epoch in range(epochs):
        run_epoch(
            train_loader, encoder, decoder, criterion, epoch, encoder_optimizer, decoder_optimizer
        )
        loss, acc = run_epoch(val_loader, encoder, decoder, criterion, epoch)
        print(f"\n * LOSS - {loss:.3f}, TOP-5 ACCURACY - {acc:.3f}\n")
    print(caption_image(encoder, decoder, CaptionDataset("VAL")[0][0]))


if __name__ == "__main__":
    main()
