"""Measured sets of bench/truth, unpacked where bench/truth.mjs unpacks them."""

import hashlib
import json
import os
import shutil
import tarfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
TRUTH = os.path.join(ROOT, "bench", "truth")
# As in bench/truth.mjs: an archive cannot fill a disk.
MAX_BYTES, MAX_FILES = 64 << 20, 5000


def kept_files(name):
    """Paths of the files of a set that lie in the tree, in the order of bytes."""
    top = os.path.join(TRUTH, name)
    found = [
        os.path.relpath(os.path.join(folder, file), top)
        for folder, _, files in os.walk(top)
        for file in files
        if "__pycache__" not in folder
    ]
    return sorted(found, key=os.fsencode)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def folder(name):
    """The folder of a set; unpacked at the first call. Its name is a digest of all that is in it."""
    archive = os.path.join(TRUTH, name + ".tar.xz")
    digest = hashlib.sha256(read(archive))
    for file in kept_files(name):
        digest.update(file.encode() + b"\0" + read(os.path.join(TRUTH, name, file)))
    place = os.path.join(ROOT, "build", "truth", name, digest.hexdigest()[:16])
    if not os.path.isdir(place):
        part = f"{place}.{os.getpid()}.part"
        shutil.rmtree(part, ignore_errors=True)
        unpack(name, archive, part)
        try:
            os.rename(part, place)
        except OSError:
            # Another process was faster.
            shutil.rmtree(part, ignore_errors=True)
            if not os.path.isdir(place):
                raise
    return place


def unpack(name, archive, place):
    with tarfile.open(archive, "r:xz") as tar:
        size = 0
        for count, member in enumerate(tar, 1):
            size += member.size
            if size > MAX_BYTES or count > MAX_FILES or not member.isreg():
                raise ValueError(f"{archive}: {member.name} is not a file of a measured set")
            tar.extract(member, place, filter="data")
    for file in kept_files(name):
        target = os.path.join(place, file)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(os.path.join(TRUTH, name, file), target)


def cases_of(path):
    """The list of cases in a file, or one of the lists of bench/truth by its name."""
    if not os.path.isfile(path):
        path = os.path.join(folder("cases"), "lists", f"{path}.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def with_folders(options):
    """The options; models and scripts are those of the cases where no folder is named."""
    options.configs = options.configs or os.path.join(folder("cases"), "configs")
    options.scripts = options.scripts or os.path.join(folder("cases"), "scripts")
    return options
