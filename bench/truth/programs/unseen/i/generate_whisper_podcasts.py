"""Transcribe 30-second podcast chunks with a Whisper-large-turbo sized model: greedy pass, then beams on the worst."""

import torch
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

DEVICE = "cuda"
DTYPE = torch.float16
CHUNKS = 36
BATCH = 16
RETRY = 8
TOKENS = 72
MELS = 128
SHAPE = dict(
    d_model=1280,
    encoder_layers=32,
    decoder_layers=4,
    encoder_attention_heads=20,
    decoder_attention_heads=20,
    encoder_ffn_dim=5120,
    decoder_ffn_dim=5120,
)

torch.manual_seed(6)


def podcast_chunks(n):
    t = torch.arange(16000 * 30) / 16000
    return [
        (torch.sin(2 * torch.pi * (100 + 7 * i) * t) + 0.05 * torch.randn(len(t))).numpy()
        for i in range(n)
    ]


def build():
    config = WhisperConfig(num_mel_bins=MELS, vocab_size=51866, max_target_positions=448, **SHAPE)
    with torch.device(DEVICE):
        model = WhisperForConditionalGeneration(config)
    model.generation_config.no_timestamps_token_id = 50364
    model.generation_config.begin_suppress_tokens = None
    model.generation_config.suppress_tokens = None
    return model.to(DTYPE).eval()


def main():
    extractor = WhisperFeatureExtractor(feature_size=MELS)
    model = build()
    audio = podcast_chunks(CHUNKS)
    features = []
    for i in range(0, CHUNKS, BATCH):
        out = extractor(audio[i : i + BATCH], sampling_rate=16000, return_tensors="pt")
        features.append(out.input_features)
    texts, scores = [], []
    for block in features:
        with torch.inference_mode():
            block = block.to(DEVICE, DTYPE)
            ids = model.generate(block, max_new_tokens=TOKENS, num_beams=1, do_sample=False)
            logits = model(input_features=block, decoder_input_ids=ids).logits
            logp = logits[:, :-1].float().log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
        texts.extend(ids.cpu().tolist())
        scores.extend(logp.mean(-1).tolist())
        print("transcribed", len(texts), "mean logp", round(sum(scores) / len(scores), 3))

    worst = sorted(range(len(texts)), key=scores.__getitem__)[:RETRY]
    again = torch.cat(features)[worst].to(DEVICE, DTYPE)
    with torch.inference_mode():
        ids = model.generate(again, max_new_tokens=TOKENS, num_beams=5)
    for place, row in zip(worst, ids.cpu().tolist()):
        texts[place] = row
    torch.save(texts, "transcripts.pt")
    print("peak GiB", round(torch.cuda.max_memory_allocated() / 2**30, 2))


if __name__ == "__main__":
    main()
