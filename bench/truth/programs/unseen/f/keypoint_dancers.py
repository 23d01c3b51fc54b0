"""Poses of dancers: Keypoint R-CNN in fp32 with a ResNet-50 body, its lower layers frozen, Adam, best kept."""

import copy
import logging
from dataclasses import dataclass, field

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.models.detection import KeypointRCNN
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

log = logging.getLogger("dancers")


@dataclass
class Settings:
    keypoints: int = 17
    images: int = 96
    val_images: int = 12
    batch: int = 4
    epochs: int = 2
    min_size: tuple = (480, 512, 544, 576, 608, 640)
    max_size: int = 960
    lr: float = 1e-4
    milestones: list = field(default_factory=lambda: [1])


class Dancers(Dataset):
    def __init__(self, cfg, count, seed):
        self.cfg, self.count, self.seed = cfg, count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(self.seed * 10_000 + index)
        h, w = 400 + 40 * (index % 4), 600 - 30 * (index % 3)
        image = torch.rand(3, h, w, generator=g)
        n = 1 + index % 5
        size = torch.tensor([0.3 * w, 0.6 * h]) * (0.5 + 0.5 * torch.rand(n, 2, generator=g))
        corner = torch.rand(n, 2, generator=g) * (torch.tensor([w, h]) - size - 1)
        boxes = torch.cat([corner, corner + size], 1)
        inside = torch.rand(n, self.cfg.keypoints, 2, generator=g)
        points = corner[:, None] + inside * size[:, None]
        visible = (torch.rand(n, self.cfg.keypoints, 1, generator=g) > 0.2).float() * 2
        return image, {
            "boxes": boxes,
            "labels": torch.ones(n, dtype=torch.int64),
            "keypoints": torch.cat([points, visible], -1),
        }


def collate(rows):
    images, targets = zip(*rows)
    return list(images), list(targets)


class PoseTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        backbone = resnet_fpn_backbone(
            backbone_name="resnet50",
            weights=None,
            trainable_layers=3,
            norm_layer=torch.nn.BatchNorm2d,
        )
        self.model = KeypointRCNN(
            backbone,
            num_classes=2,
            num_keypoints=cfg.keypoints,
            min_size=cfg.min_size,
            max_size=cfg.max_size,
        ).to(self.device)
        trainable = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(trainable, lr=cfg.lr)
        self.schedule = torch.optim.lr_scheduler.MultiStepLR(self.optimizer, cfg.milestones)
        self.best, self.best_state = float("inf"), None

    def to_device(self, images, targets):
        images = [image.to(self.device) for image in images]
        return images, [{k: v.to(self.device) for k, v in t.items()} for t in targets]

    def losses(self, images, targets):
        return self.model(*self.to_device(images, targets))

    def fit(self, train, val):
        for epoch in range(self.cfg.epochs):
            self.model.train()
            for step, (images, targets) in enumerate(train):
                parts = self.losses(images, targets)
                loss = sum(parts.values())
                self.optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_value_(self.model.parameters(), 1.0)
                self.optimizer.step()
                if step % 8 == 0:
                    log.info(
                        "%d.%d %s", epoch, step, {k: round(v.item(), 3) for k, v in parts.items()}
                    )
            self.schedule.step()
            score = self.validate(val)
            if score < self.best:
                self.best, self.best_state = score, copy.deepcopy(self.model.state_dict())
            log.info("epoch %d: %.3f, best %.3f", epoch, score, self.best)
        if self.best_state is not None:
            self.model.load_state_dict(self.best_state)

    @torch.no_grad()
    def validate(self, loader):
        # the losses need the training mode
        self.model.train()
        return sum(sum(self.losses(*rows).values()).item() for rows in loader) / len(loader)

    @torch.no_grad()
    def poses(self, loader):
        self.model.eval()
        found = 0
        for images, _ in loader:
            for out in self.model([image.to(self.device) for image in images]):
                found += (
                    int((out["keypoints_scores"].mean(-1) > 0).sum()) if len(out["scores"]) else 0
                )
        return found


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(3)
    cfg = Settings()
    train = DataLoader(
        Dancers(cfg, cfg.images, 0), cfg.batch, True, collate_fn=collate, num_workers=3
    )
    val = DataLoader(Dancers(cfg, cfg.val_images, 1), cfg.batch, collate_fn=collate)
    trainer = PoseTrainer(cfg)
    trainer.fit(train, val)
    log.info("%d poses", trainer.poses(val))


if __name__ == "__main__":
    main()
