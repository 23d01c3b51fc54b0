"""Whisper-medium with LoRA on the attention projections, by hand: autocast, WER by token edit distance, sampling."""

import random
import time

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import WhisperConfig, WhisperForConditionalGeneration

DEVICE = "cuda"
D_MODEL = 1024
LAYERS = 24
HEADS = 16
VOCAB = 51865
CLIPS = 96
VAL_CLIPS = 16
BATCH = 8
EPOCHS = 2
MAX_LABEL = 120
START, EOT, PAD = 50258, 50257, 50257


class Speech(Dataset):
    """log-mel features of 30 s windows with random transcripts"""

    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        rnd = random.Random(self.seed + i)
        feats = torch.randn(80, 3000, generator=g) * 0.3
        n = rnd.randint(10, MAX_LABEL)
        labels = [rnd.randrange(300, 50000) for _ in range(n)] + [EOT]
        return feats, labels


def collate(batch):
    feats = torch.stack([b[0] for b in batch])
    longest = max(len(b[1]) for b in batch)
    labels = torch.full((len(batch), longest), -100)
    for i, (_, l) in enumerate(batch):
        labels[i, : len(l)] = torch.tensor(l)
    return feats, labels


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (x != y))
    return row[-1]


def main():
    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=VOCAB,
        d_model=D_MODEL,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=D_MODEL * 4,
        decoder_ffn_dim=D_MODEL * 4,
        decoder_start_token_id=START,
        eos_token_id=EOT,
        pad_token_id=PAD,
        bos_token_id=EOT,
    )
    model = WhisperForConditionalGeneration(config)
    model.model.encoder.conv1.register_forward_hook(lambda m, i, o: o.requires_grad_(True))
    model = get_peft_model(
        model,
        LoraConfig(
            r=32, lora_alpha=64, target_modules=["q_proj", "v_proj"], lora_dropout=0.05, bias="none"
        ),
    )
    model.print_trainable_parameters()
    model.to(DEVICE)

    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=1e-3)
    train = DataLoader(Speech(CLIPS, 0), BATCH, shuffle=True, collate_fn=collate, num_workers=2)
    val = DataLoader(Speech(VAL_CLIPS, 10_000), BATCH, collate_fn=collate)
    steps = EPOCHS * len(train)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: max(0.0, 1 - s / steps))

    step = 0
    for epoch in range(EPOCHS):
        model.train()
        tic = time.time()
        for feats, labels in train:
            feats, labels = feats.to(DEVICE, non_blocking=True), labels.to(DEVICE)
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                loss = model(input_features=feats, labels=labels).loss
            if torch.isnan(loss):
                print("nan loss, batch skipped")
                optimizer.zero_grad()
                continue
            loss.backward()
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            step += 1
            if step % 4 == 0:
                print(
                    f"step {step}/{steps} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.2e}"
                )
        print(f"epoch {epoch}: {time.time() - tic:.1f} s")

        model.eval()
        errors = words = 0
        for feats, labels in val:
            with torch.no_grad(), torch.autocast(DEVICE, dtype=torch.bfloat16):
                # greedy by hand: encode once, then token after token with the cache
                whisper = model.get_base_model()
                encoded = whisper.model.encoder(feats.to(DEVICE))
                tokens = torch.full((len(feats), 1), START, device=DEVICE)
                past, done = None, torch.zeros(len(feats), dtype=torch.bool, device=DEVICE)
                for _ in range(64):
                    out = whisper(
                        encoder_outputs=encoded,
                        decoder_input_ids=tokens[:, -1:],
                        past_key_values=past,
                        use_cache=True,
                    )
                    past = out.past_key_values
                    nxt = out.logits[:, -1].argmax(-1)
                    nxt = torch.where(done, torch.full_like(nxt, PAD), nxt)
                    tokens = torch.cat([tokens, nxt[:, None]], 1)
                    done |= nxt == EOT
                    if done.all():
                        break
            for hyp, ref in zip(tokens[:, 1:].tolist(), labels.tolist()):
                ref = [t for t in ref if t not in (-100, EOT)]
                hyp = [t for t in hyp if t != EOT]
                errors += edit_distance(hyp, ref)
                words += len(ref)
        print(f"token error rate {errors / words:.3f}")
    model.save_pretrained("whisper_lora")


if __name__ == "__main__":
    main()
