# ruff: noqa: E501, E731, C408, E741, PLC3002, PLR0915, RUF100, SIM115
"""Programs of bench/gpu/spill.py: 30 models, each with its batch and a plain loop, as people write them."""

import os


def programs():
    import torch
    import torch.nn.functional as F
    from torch import nn

    def named(name):
        return getattr(__import__("torchvision").models, name)

    def transformer(kind, **config):
        import transformers

        transformers.logging.set_verbosity_error()
        made = getattr(transformers, kind.split(":")[1])(**config)
        return getattr(transformers, kind.split(":")[0])(made)

    def loop(
        model,
        batch,
        loss,
        *,
        lr=1e-4,
        amp=None,
        scaler=False,
        clip=None,
        parts=1,
        kind="AdamW",
        ema=False,
    ):
        """A plain loop, as people write it."""
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = getattr(torch.optim, kind)(trained, lr=lr)
        device = next(model.parameters()).device.type
        grown = torch.amp.GradScaler(device, enabled=scaler)
        average = torch.optim.swa_utils.AveragedModel(model) if ema else None

        def step():
            total = 0.0
            for _ in range(parts):
                with torch.autocast(device, dtype=amp, enabled=amp is not None):
                    value = loss(model, batch) / parts
                grown.scale(value).backward()
                total += value.detach()
            if clip:
                grown.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(trained, clip)
            grown.step(optimizer)
            grown.update()
            optimizer.zero_grad()
            if average is not None:
                average.update_parameters(model)
            return total

        return model, step

    def pictures(count, size, classes=1000):
        def make(device):
            g = torch.Generator().manual_seed(1)
            return (
                torch.randn(count, 3, size, size, generator=g).to(device),
                torch.randint(0, classes, (count,), generator=g).to(device),
            )

        return make

    def words(count, length, classes):
        def make(device):
            g = torch.Generator().manual_seed(1)
            return torch.randint(0, classes, (count, length), generator=g).to(device)

        return make

    def classified(model, batch):
        output = model(batch[0])
        output = getattr(output, "logits", output)
        return F.cross_entropy(output, batch[1])

    def own_loss(model, batch):
        return model(input_ids=batch, labels=batch).loss

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.heads = heads
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = self.qkv(self.first(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self, layers, width, heads, vocabulary, length):
            super().__init__()
            self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, ids):
            x = self.token(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    def next_word(model, ids):
        logits = model(ids[:, :-1])
        return F.cross_entropy(logits.reshape(-1, logits.size(-1)), ids[:, 1:].reshape(-1))

    class Twice(nn.Module):
        def __init__(self, inside, out):
            super().__init__()
            self.net = nn.Sequential(
                nn.Conv2d(inside, out, 3, padding=1),
                nn.BatchNorm2d(out),
                nn.ReLU(inplace=True),
                nn.Conv2d(out, out, 3, padding=1),
                nn.BatchNorm2d(out),
                nn.ReLU(inplace=True),
            )

        def forward(self, x):
            return self.net(x)

    class UNet(nn.Module):
        def __init__(self, width):
            super().__init__()
            sizes = [width * 2**i for i in range(5)]
            self.down = nn.ModuleList(Twice(a, b) for a, b in zip([3, *sizes], sizes))
            self.up = nn.ModuleList(
                nn.ConvTranspose2d(2 * a, a, 2, 2) for a in reversed(sizes[:-1])
            )
            self.join = nn.ModuleList(Twice(2 * a, a) for a in reversed(sizes[:-1]))
            self.end = nn.Conv2d(width, 4, 1)

        def forward(self, x):
            seen = []
            for index, part in enumerate(self.down):
                x = part(F.max_pool2d(x, 2) if index else x)
                seen.append(x)
            for up, join, beside in zip(self.up, self.join, reversed(seen[:-1])):
                x = join(torch.cat([beside, up(x)], 1))
            return self.end(x)

    def segmented(model, batch):
        target = batch[0].argmax(1)
        output = model(batch[0])
        return F.cross_entropy(output["out"] if isinstance(output, dict) else output, target)

    class Lstm(nn.Module):
        def __init__(self, width, layers, vocabulary):
            super().__init__()
            self.words = nn.Embedding(vocabulary, width)
            self.parts = nn.ModuleList(
                nn.LSTM(width, width, 1, batch_first=True) for _ in range(layers)
            )
            self.drop, self.head = nn.Dropout(0.2), nn.Linear(width, vocabulary)

        def forward(self, ids):
            x = self.words(ids)
            for part in self.parts:
                x = self.drop(part(x)[0])
            return self.head(x)

    class Gan(nn.Module):
        def __init__(self, width):
            super().__init__()
            w = width
            up = [(128, 16 * w), (16 * w, 8 * w), (8 * w, 4 * w), (4 * w, 2 * w), (2 * w, w)]
            self.g = nn.Sequential(
                *[
                    nn.Sequential(
                        nn.ConvTranspose2d(a, b, 4, 2 if i else 1, 1 if i else 0),
                        nn.BatchNorm2d(b),
                        nn.ReLU(True),
                    )
                    for i, (a, b) in enumerate(up)
                ],
                nn.ConvTranspose2d(w, 3, 4, 2, 1),
                nn.Tanh(),
            )
            down = [(3, w), (w, 2 * w), (2 * w, 4 * w), (4 * w, 8 * w), (8 * w, 16 * w)]
            self.d = nn.Sequential(
                *[
                    nn.Sequential(
                        nn.Conv2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, True)
                    )
                    for a, b in down
                ],
                nn.Conv2d(16 * w, 1, 4),
            )

    def gan(model, batch):
        g_steps = torch.optim.Adam(model.g.parameters(), 2e-4, betas=(0.5, 0.999))
        d_steps = torch.optim.Adam(model.d.parameters(), 2e-4, betas=(0.5, 0.999))
        real, noise = batch

        def step():
            fake = model.g(noise)
            d_steps.zero_grad()
            yes, no = model.d(real), model.d(fake.detach())
            loss = F.softplus(-yes).mean() + F.softplus(no).mean()
            loss.backward()
            d_steps.step()
            g_steps.zero_grad()
            other = F.softplus(-model.d(fake)).mean()
            other.backward()
            g_steps.step()
            return loss.detach() + other.detach()

        return model, step

    bf16, fp16 = torch.bfloat16, torch.float16
    tiny = os.environ.get("SPILL_TINY") == "1"

    def pick(large, small):
        return small if tiny else large

    def vit(width, layers, heads):
        return transformer(
            "ViTForImageClassification:ViTConfig",
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            num_labels=1000,
        )

    def lora(model):
        for p in model.parameters():
            p.requires_grad_(False)

        class Lora(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
                self.a = nn.Parameter(torch.randn(8, inner.in_features) * 0.01)
                self.b = nn.Parameter(torch.zeros(inner.out_features, 8))

            def forward(self, x):
                return self.inner(x) + x @ self.a.t() @ self.b.t()

        for block in model.blocks:
            block.qkv, block.up = Lora(block.qkv), Lora(block.up)
        return model

    def two(a, b):
        return lambda device: (a(device)[0], b(device))

    def noise(count):
        return lambda device: torch.randn(
            count, 128, 1, 1, generator=torch.Generator().manual_seed(2)
        ).to(device)

    def clip_towers():
        class Towers(nn.Module):
            def __init__(self):
                super().__init__()
                self.see, self.read = (
                    vit(*pick((768, 12, 12), (64, 2, 2))),
                    Gpt(*pick((12, 512, 8, 49408, 77), (2, 64, 2, 99, 16))),
                )

            def forward(self, images, ids):
                a = F.normalize(self.see(images).logits[:, :512], dim=1)
                b = F.normalize(
                    self.read.norm(
                        self.read(ids)[:, -1, :512]
                        if False
                        else self.read.place.weight[:1].expand(len(ids), -1)
                        + self.read.token(ids).mean(1)
                    )
                    @ torch.eye(b_width, 512, device=ids.device),
                    dim=1,
                )
                return a @ b.t() * 14

        b_width = pick(512, 64)
        return Towers()

    def video(count, size):
        def make(device):
            g = torch.Generator().manual_seed(1)
            return torch.randn(count, 3, pick(16, 4), size, size, generator=g).to(
                device
            ), torch.randint(0, 400, (count,), generator=g).to(device)

        return make

    def llama(width, layers, heads, inner, vocabulary):
        return transformer(
            "LlamaForCausalLM:LlamaConfig",
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads // 4,
            intermediate_size=inner,
            vocab_size=vocabulary,
        )

    def bert(kind, width, layers, heads):
        return transformer(
            f"{kind}ForMaskedLM:{kind}Config",
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
        )

    class Encoder(nn.Module):
        def __init__(self, width, layers, heads):
            super().__init__()
            self.words = nn.Embedding(32000, width)
            layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, batch_first=True)
            self.encoder, self.head = nn.TransformerEncoder(layer, layers), nn.Linear(width, 1000)

        def forward(self, ids):
            return self.head(self.encoder(self.words(ids)).mean(1))

    class Autoencoder(nn.Module):
        def __init__(self, w):
            super().__init__()
            self.down = nn.Sequential(
                *[
                    nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.GroupNorm(8, b), nn.SiLU())
                    for a, b in [(3, w), (w, 2 * w), (2 * w, 4 * w)]
                ]
            )
            self.mean, self.spread = nn.Conv2d(4 * w, 16, 1), nn.Conv2d(4 * w, 16, 1)
            self.up = nn.Sequential(
                nn.Conv2d(16, 4 * w, 1),
                *[
                    nn.Sequential(
                        nn.Upsample(scale_factor=2),
                        nn.Conv2d(a, b, 3, 1, 1),
                        nn.GroupNorm(8, b),
                        nn.SiLU(),
                    )
                    for a, b in [(4 * w, 2 * w), (2 * w, w), (w, w)]
                ],
                nn.Conv2d(w, 3, 1),
            )

        def forward(self, x):
            h = self.down(x)
            mean, spread = self.mean(h), self.spread(h)
            return self.up(mean + torch.randn_like(mean) * spread.exp()), mean, spread

    def restored(model, batch):
        out, mean, spread = model(batch[0])
        return F.mse_loss(out, batch[0]) + 1e-3 * (mean.pow(2) + spread.exp() - spread).mean()

    def masked(model, batch):
        return model(input_ids=batch, labels=batch).loss

    P = pictures
    size = pick(224, 64)
    n = pick
    gpt24 = lambda: Gpt(*pick((24, 1024, 16, 50304, 1024), (3, 64, 2, 500, 64)))
    return {
        "vit-large": lambda: (
            vit(*n((1024, 24, 16), (64, 3, 2))),
            P(n(96, 2), 224),
            lambda m, b: loop(m, b, classified),
        ),
        "gpt-24x1024-bf16": lambda: (
            gpt24(),
            words(*n((12, 1025, 50304), (2, 33, 500))),
            lambda m, b: loop(m, b, next_word, amp=bf16),
        ),
        "gpt2-hf-fp32": lambda: (
            transformer(
                "GPT2LMHeadModel:GPT2Config", **n({}, dict(n_embd=64, n_layer=2, n_head=2))
            ),
            words(*n((12, 1024, 50257), (2, 32, 500))),
            lambda m, b: loop(m, b, own_loss),
        ),
        "bert-base-bf16": lambda: (
            bert("Bert", *n((768, 12, 12), (64, 2, 2))),
            words(*n((64, 256, 30000), (2, 32, 500))),
            lambda m, b: loop(m, b, masked, amp=bf16),
        ),
        "roberta-large-tf32": lambda: (
            bert("Roberta", *n((1024, 24, 16), (64, 2, 2))),
            words(*n((24, 256, 30000), (2, 32, 500))),
            lambda m, b: loop(m, b, masked, clip=1.0),
        ),
        "t5-base-bf16": lambda: (
            transformer(
                "T5ForConditionalGeneration:T5Config",
                **n(
                    dict(d_model=768, d_ff=3072, num_layers=12, num_heads=12),
                    dict(d_model=64, d_ff=64, num_layers=2, num_heads=2),
                ),
            ),
            words(*n((16, 512, 32000), (2, 32, 500))),
            lambda m, b: loop(m, b, own_loss, amp=bf16),
        ),
        "llama-1b-bf16": lambda: (
            llama(*n((2048, 16, 32, 5632, 32000), (64, 2, 4, 128, 500))).to(bf16),
            words(*n((8, 2048, 32000), (2, 32, 500))),
            lambda m, b: loop(m, b, own_loss),
        ),
        "qwen-vocabulary-bf16": lambda: (
            llama(*n((896, 24, 16, 4864, 151936), (64, 2, 4, 128, 500))),
            words(*n((6, 1024, 151936), (2, 32, 500))),
            lambda m, b: loop(m, b, own_loss, amp=bf16),
        ),
        "gpt-lora-accumulated": lambda: (
            lora(gpt24()),
            words(*n((8, 1025, 50304), (2, 33, 500))),
            lambda m, b: loop(m, b, next_word, amp=bf16, parts=4),
        ),
        "resnet50": lambda: (
            named("resnet50")(),
            P(n(192, 2), size),
            lambda m, b: loop(m, b, classified, kind="SGD"),
        ),
        "resnet152-fp16": lambda: (
            named("resnet152" if not tiny else "resnet18")(),
            P(n(192, 2), size),
            lambda m, b: loop(m, b, classified, amp=fp16 if not tiny else bf16, scaler=not tiny),
        ),
        "convnext-base-bf16": lambda: (
            named("convnext_base" if not tiny else "convnext_tiny")(),
            P(n(128, 2), size),
            lambda m, b: loop(m, b, classified, amp=bf16),
        ),
        "swin-small": lambda: (
            named("swin_v2_s" if not tiny else "swin_v2_t")(),
            P(n(96, 1), size),
            lambda m, b: loop(m, b, classified),
        ),
        "efficientnet-b4-bf16": lambda: (
            named("efficientnet_b4" if not tiny else "efficientnet_b0")(),
            P(n(128, 2), size),
            lambda m, b: loop(m, b, classified, amp=bf16),
        ),
        "densenet161": lambda: (
            named("densenet161" if not tiny else "densenet121")(),
            P(n(96, 2), size),
            lambda m, b: loop(m, b, classified),
        ),
        "vgg16": lambda: (
            named("vgg16" if not tiny else "vgg11")(),
            P(n(128, 2), size),
            lambda m, b: loop(m, b, classified, kind="SGD", lr=1e-3),
        ),
        "mobilenet-v3-bf16": lambda: (
            named("mobilenet_v3_large")(),
            P(n(384, 2), size),
            lambda m, b: loop(m, b, classified, amp=bf16),
        ),
        "deeplab": lambda: (
            __import__("torchvision").models.segmentation.deeplabv3_resnet50(
                weights_backbone=None, num_classes=4
            ),
            P(n(32, 2), size),
            lambda m, b: loop(m, b, segmented, kind="SGD"),
        ),
        "unet-clipped": lambda: (
            UNet(n(64, 8)),
            P(n(16, 2), n(256, 32)),
            lambda m, b: loop(m, b, segmented, clip=1.0),
        ),
        "unet-fp16": lambda: (
            UNet(n(64, 8)),
            P(n(32, 2), n(256, 32)),
            lambda m, b: loop(m, b, segmented, amp=fp16 if not tiny else bf16, scaler=not tiny),
        ),
        "r3d-video": lambda: (
            __import__("torchvision").models.video.r3d_18(),
            video(n(32, 1), n(112, 32)),
            lambda m, b: loop(m, b, classified, kind="SGD"),
        ),
        "deit-averaged-fp16": lambda: (
            vit(*n((384, 12, 6), (64, 2, 2))),
            P(n(256, 2), 224),
            lambda m, b: loop(
                m, b, classified, amp=fp16 if not tiny else bf16, scaler=not tiny, ema=True
            ),
        ),
        "encoder-dropout": lambda: (
            Encoder(*n((768, 12, 12), (64, 2, 2))),
            (lambda f: lambda d: (f(d), f(d)[:, 0] % 1000))(
                words(*n((48, 512, 32000), (2, 32, 500)))
            ),
            lambda m, b: loop(m, b, classified),
        ),
        "lstm": lambda: (
            Lstm(*n((1024, 4, 32000), (32, 2, 100))),
            words(*n((64, 257, 32000), (2, 17, 100))),
            lambda m, b: loop(m, b, next_word, clip=0.5),
        ),
        "gan": lambda: (Gan(n(64, 4)), two(P(n(256, 2), n(128, 128)), noise(n(256, 2))), gan),
        "autoencoder": lambda: (
            Autoencoder(n(128, 8)),
            P(n(48, 2), n(256, 32)),
            lambda m, b: loop(m, b, restored),
        ),
        "wav2vec2-bf16": lambda: (
            transformer(
                "Wav2Vec2ForCTC:Wav2Vec2Config",
                **n(
                    dict(mask_time_prob=0.0, layerdrop=0.0),
                    dict(
                        hidden_size=64,
                        num_hidden_layers=2,
                        num_attention_heads=2,
                        intermediate_size=64,
                        mask_time_prob=0.0,
                        layerdrop=0.0,
                    ),
                ),
            ),
            lambda d: torch.randn(
                n(16, 1), n(160000, 16000), generator=torch.Generator().manual_seed(1)
            ).to(d),
            lambda m, b: loop(
                m, b, lambda m, b: m(input_values=b).logits.float().pow(2).mean(), amp=bf16
            ),
        ),
        "segformer": lambda: (
            transformer("SegformerForImageClassification:SegformerConfig", num_labels=1000),
            P(n(96, 2), size),
            lambda m, b: loop(m, b, classified),
        ),
        "mixer-regnet-bf16": lambda: (
            named("regnet_y_8gf" if not tiny else "regnet_y_400mf")(),
            P(n(192, 2), size),
            lambda m, b: loop(m, b, classified, amp=bf16),
        ),
        "maxvit-bf16": lambda: (
            named("maxvit_t")(),
            P(n(96, 1), 224),
            lambda m, b: loop(m, b, classified, amp=bf16),
        ),
    }
