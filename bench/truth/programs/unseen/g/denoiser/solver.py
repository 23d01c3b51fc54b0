import json
import logging
import pathlib

import torch

from .data import loaders
from .network import MaskUNet, multi_resolution, si_snr

logger = logging.getLogger(__name__)


class Solver:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch.device(cfg.train.device)
        torch.manual_seed(cfg.train.seed)
        self.train_loader, self.valid_loader = loaders(cfg)
        self.model = MaskUNet(cfg.model).to(self.device)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=cfg.train.lr, betas=(0.9, 0.99)
        )
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimizer, "max", factor=0.5, patience=0
        )
        self.folder = pathlib.Path(cfg.train.folder)
        self.folder.mkdir(exist_ok=True)
        self.history, self.best, self.bad, self.epoch = [], float("-inf"), 0, 0

    @property
    def checkpoint(self):
        return self.folder / "checkpoint.th"

    def save(self):
        package = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "history": self.history,
            "scheduler": self.scheduler.state_dict(),
            "best": self.best,
            "epoch": self.epoch,
        }
        tmp = self.checkpoint.with_suffix(".tmp")
        torch.save(package, tmp)
        tmp.rename(self.checkpoint)
        (self.folder / "history.json").write_text(json.dumps(self.history, indent=2))

    def restore(self):
        if not self.checkpoint.exists():
            return False
        package = torch.load(self.checkpoint, map_location="cpu")
        self.model.load_state_dict(package["model"])
        self.optimizer.load_state_dict(package["optimizer"])
        self.scheduler.load_state_dict(package["scheduler"])
        self.history, self.best, self.epoch = package["history"], package["best"], package["epoch"]
        logger.info("resumed after epoch %d", self.epoch)
        return True

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for i, (noisy, clean) in enumerate(self.train_loader):
            noisy, clean = (
                noisy.to(self.device, non_blocking=True),
                clean.to(self.device, non_blocking=True),
            )
            with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.cfg.train.amp):
                estimate = self.model(noisy)
            loss = multi_resolution(estimate, clean) - 0.05 * si_snr(estimate, clean).mean()
            self.optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.train.clip)
            if torch.isfinite(norm):
                self.optimizer.step()
            else:
                logger.warning("gradient is not finite, step skipped")
            total += loss.item()
            if i % 5 == 0:
                logger.info(
                    "epoch %d | %d/%d | loss %.4f | norm %.2f",
                    self.epoch,
                    i,
                    len(self.train_loader),
                    loss.item(),
                    norm,
                )
        return total / max(1, len(self.train_loader))

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        gain, n = 0.0, 0
        for noisy, clean in self.valid_loader:
            noisy, clean = noisy.to(self.device), clean.to(self.device)
            estimate = self.model(noisy)
            gain += (si_snr(estimate, clean) - si_snr(noisy, clean)).sum().item()
            n += len(noisy)
        return gain / n

    def fit(self, until):
        while self.epoch < until:
            loss = self.train_epoch()
            gain = self.validate()
            self.scheduler.step(gain)
            self.epoch += 1
            self.history.append({"epoch": self.epoch, "loss": loss, "gain": gain})
            logger.info("epoch %d done: loss %.4f, improvement %.2f dB", self.epoch, loss, gain)
            if gain > self.best:
                self.best, self.bad = gain, 0
            else:
                self.bad += 1
            self.save()
            if self.bad >= self.cfg.train.patience:
                logger.info("no improvement for %d epochs, stopping", self.bad)
                break
