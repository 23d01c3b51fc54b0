import torch
from torch.utils.data import Dataset


def make_tile(size, seed):
    """A grey picture with bright straight roads, and where they are."""
    g = torch.Generator().manual_seed(seed)
    image = torch.randint(40, 160, (3, size, size), generator=g, dtype=torch.uint8)
    mask = torch.zeros(1, size, size, dtype=torch.uint8)
    for _ in range(12):
        at = int(torch.randint(0, size - 12, (1,), generator=g))
        if torch.rand((), generator=g) < 0.5:
            mask[:, at : at + 10] = 1
        else:
            mask[:, :, at : at + 10] = 1
    return image + mask * 80, mask


class Crops(Dataset):
    def __init__(self, tiles, crop, count):
        self.tiles, self.crop, self.count = tiles, crop, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        image, mask = self.tiles[i % len(self.tiles)]
        top, left = torch.randint(0, image.shape[-1] - self.crop + 1, (2,)).tolist()
        window = (..., slice(top, top + self.crop), slice(left, left + self.crop))
        return image[window].float() / 127.5 - 1, mask[window].float()
