"""Lightning with two metrics, validation each epoch, and checkpoints."""

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torchvision.models.resnet34(num_classes=10)

    def training_step(self, batch, _):
        loss = F.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        out = self.net(batch[0])
        self.log("valid", F.cross_entropy(out, batch[1]))
        self.log("right", (out.argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), 0.1, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


images = torchvision.datasets.FakeData(700, (3, 96, 96), 10, torchvision.transforms.ToTensor())
trainer = pl.Trainer(
    max_epochs=2,
    accelerator="gpu",
    devices=1,
    precision="16-mixed",
    gradient_clip_val=1.0,
    accumulate_grad_batches=2,
    logger=False,
    enable_progress_bar=False,
)
trainer.fit(
    Net(),
    DataLoader(images, 128, shuffle=True, num_workers=2),
    DataLoader(images, 256, num_workers=2),
)
