"""python -m denoiser [--train.epochs 3] [--model.channels 32 64 128] ..."""

import logging
import shutil

from .config import from_args
from .solver import Solver


def main():
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s [%(name)s] %(message)s", datefmt="%H:%M:%S"
    )
    cfg = from_args()
    logging.info("%s", cfg)
    first = Solver(cfg)
    first.fit(until=max(1, cfg.train.epochs - 1))
    del first
    # a second solver continues from the files, as after a restart
    second = Solver(cfg)
    second.restore()
    second.fit(until=cfg.train.epochs)
    logging.info("best improvement %.2f dB", second.best)
    shutil.rmtree(cfg.train.folder)


if __name__ == "__main__":
    main()
