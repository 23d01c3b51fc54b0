"""ELECTRA pretraining: generator and discriminator with their own optimizers (manual optimisation in Lightning)."""

import lightning as L
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

VOCAB = 30522
MASK = 103
LENGTH = 256
BATCH = 48
VAL_BATCH = 64
ROWS = 640
VAL_ROWS = 128
WIDTH = 768
LAYERS = 12
GEN_WIDTH = 256


def config(width, heads):
    return ElectraConfig(
        vocab_size=VOCAB,
        embedding_size=WIDTH,
        hidden_size=width,
        num_hidden_layers=LAYERS,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )


class Electra(L.LightningModule):
    def __init__(self, mask_rate=0.15, weight=50.0):
        super().__init__()
        self.automatic_optimization = False
        self.mask_rate, self.weight = mask_rate, weight
        self.generator = ElectraForMaskedLM(config(GEN_WIDTH, 4))
        self.discriminator = ElectraForPreTraining(config(WIDTH, 12))
        # token embeddings are shared
        self.generator.electra.embeddings.word_embeddings = (
            self.discriminator.electra.embeddings.word_embeddings
        )

    def corrupt(self, ids):
        masked = torch.rand(ids.shape, device=ids.device) < self.mask_rate
        noisy = ids.masked_fill(masked, MASK)
        labels = ids.masked_fill(~masked, -100)
        out = self.generator(input_ids=noisy, labels=labels)
        with torch.no_grad():
            picked = out.logits[masked].float()
            gumbel = -torch.log(-torch.log(torch.rand_like(picked).clamp_(1e-9, 1 - 1e-7)))
            sampled = (picked + gumbel).argmax(-1)
        fake = ids.clone()
        fake[masked] = sampled
        return out.loss, fake, (fake != ids).long()

    def training_step(self, batch, index):
        (ids,) = batch
        opt_g, opt_d = self.optimizers()
        sched_g, sched_d = self.lr_schedulers()
        gen_loss, fake, replaced = self.corrupt(ids)
        opt_g.zero_grad()
        self.manual_backward(gen_loss)
        self.clip_gradients(opt_g, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
        opt_g.step()

        opt_d.zero_grad()
        disc_loss = self.discriminator(input_ids=fake, labels=replaced).loss
        self.manual_backward(self.weight * disc_loss)
        self.clip_gradients(opt_d, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
        opt_d.step()
        sched_g.step()
        sched_d.step()
        self.log_dict({"gen": gen_loss, "disc": disc_loss})

    def validation_step(self, batch, index):
        gen_loss, fake, replaced = self.corrupt(batch[0])
        logits = self.discriminator(input_ids=fake).logits
        self.log("val_gen", gen_loss)
        self.log("val_disc", F.binary_cross_entropy_with_logits(logits.float(), replaced.float()))
        self.log("val_acc", ((logits > 0).long() == replaced).float().mean())

    def configure_optimizers(self):
        shared = {id(p) for p in self.discriminator.parameters()}
        gen = [p for p in self.generator.parameters() if id(p) not in shared]
        opt_g = torch.optim.Adam(gen, lr=5e-4)
        opt_d = torch.optim.AdamW(self.discriminator.parameters(), lr=2e-4, weight_decay=0.01)
        warm = lambda s: min(1.0, (s + 1) / 5)
        return [opt_g, opt_d], [torch.optim.lr_scheduler.LambdaLR(o, warm) for o in (opt_g, opt_d)]


def rows(n):
    return TensorDataset(torch.randint(1000, VOCAB, (n, LENGTH)))


def main():
    L.seed_everything(8)
    train = DataLoader(rows(ROWS), batch_size=BATCH, shuffle=True)
    val = DataLoader(rows(VAL_ROWS), batch_size=VAL_BATCH)
    trainer = L.Trainer(
        accelerator="gpu",
        devices=1,
        precision="bf16-mixed",
        max_epochs=1,
        val_check_interval=0.5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=True,
    )
    model = Electra()
    trainer.fit(model, train, val)
    model.discriminator.save_pretrained("electra_discriminator")
    print({k: round(float(v), 4) for k, v in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
