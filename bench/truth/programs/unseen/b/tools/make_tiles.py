"""Write tiles of a made-up satellite picture, and what grows on them, as .npy files."""

import argparse
import json
import pathlib

import numpy as np


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--tiles", type=int, default=400)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--bands", type=int, default=10)
    args = parser.parse_args()
    folder = pathlib.Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(123)
    pixels = rng.integers(
        0, 10_000, (args.tiles, args.bands, args.size, args.size), dtype=np.uint16
    )
    crops = rng.random((args.tiles, 12)) < 0.2
    np.save(folder / "tiles.npy", pixels)
    np.save(folder / "crops.npy", crops)
    (folder / "meta.json").write_text(
        json.dumps({"bands": args.bands, "crops": 12, "tiles": args.tiles}), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
