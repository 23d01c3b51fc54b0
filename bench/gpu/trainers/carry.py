"""Packs what card.py needs on a GPU machine that has PyTorch and no network.

Usage: carry.py FOLDER [--trl] [--command ARCHIVE] [--nanogpt CHECKOUT] [--python 3.12]
FOLDER gets site.tar.xz (Lightning; with --trl also TRL and what it imports), command.tar.xz (the archive that
`npm run bundle -- --arch x64` makes) and nanogpt.tar.xz (three files of a checkout of nanoGPT). Parts that are not
asked for are removed from FOLDER.
"""

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

LIGHTNING = ["lightning==2.6.6", "lightning-utilities", "torchmetrics"]
TRL = ["trl==1.16.0", "datasets==5.2.0", "pyarrow", "pandas", "python-dateutil", "six", "tzdata"]
TRL += ["dill", "multiprocess", "xxhash"]
# Parts of pyarrow that data sets in memory do not use; they are half of it.
UNUSED = [
    "tests",
    "include",
    "src",
    "*flight*",
    "*gandiva*",
    "libarrow_s3*",
    "_s3fs*",
]
NANOGPT = ["train.py", "model.py", "configurator.py", "LICENSE"]


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--trl", action="store_true")
    parser.add_argument("--command")
    parser.add_argument("--nanogpt")
    parser.add_argument("--python", default="3.12")
    return parser.parse_args()


def download(packages, version, folder):
    tags = ["manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any"]
    platforms = [word for tag in tags for word in ("--platform", tag)]
    words = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version", version]
    subprocess.run(
        [sys.executable, "-m", "pip", *words, *platforms, "--dest", folder, *packages], check=True
    )


def site(packages, version, target):
    with tempfile.TemporaryDirectory() as work:
        wheels, laid = os.path.join(work, "wheels"), os.path.join(work, "site")
        download(packages, version, wheels)
        for wheel in glob.glob(os.path.join(wheels, "*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(laid)
        for pattern in UNUSED:
            for path in glob.glob(os.path.join(laid, "pyarrow", pattern)):
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        for path in glob.glob(os.path.join(laid, "pandas", "tests")):
            shutil.rmtree(path)
        for name, path in same_files(os.path.join(laid, "pyarrow")):
            os.remove(path)
            os.symlink(name, path)
        pack(laid, os.listdir(laid), target)


def same_files(folder):
    """Wheels hold one library under several names: (the shortest name, each other path)."""
    for path in sorted(glob.glob(os.path.join(folder, "*.so.*"))):
        name = os.path.basename(path).split(".so")[0] + ".so"
        first = os.path.join(folder, name)
        if first != path and os.path.exists(first) and same_bytes(first, path):
            yield name, path


def same_bytes(one, other):
    with open(one, "rb") as first, open(other, "rb") as second:
        return first.read() == second.read()


def pack(folder, names, target):
    with tarfile.open(target, "w:xz", preset=1) as archive:
        for name in sorted(names):
            archive.add(os.path.join(folder, name), name)


def main():
    given = parsed()
    os.makedirs(given.folder, exist_ok=True)
    for old in glob.glob(os.path.join(given.folder, "*.tar.xz")):
        os.remove(old)
    packages = [*LIGHTNING, *(TRL if given.trl else [])]
    site(packages, given.python, os.path.join(given.folder, "site.tar.xz"))
    if given.command:
        shutil.copy(given.command, os.path.join(given.folder, "command.tar.xz"))
    if given.nanogpt:
        pack(given.nanogpt, NANOGPT, os.path.join(given.folder, "nanogpt.tar.xz"))
    for path in sorted(glob.glob(os.path.join(given.folder, "*.tar.xz"))):
        print(f"{path}: {os.path.getsize(path) / 2**20:.1f} MiB")


main()
