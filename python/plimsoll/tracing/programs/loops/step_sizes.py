"""Whether the steps of a training differ in size, where no loader tells: batches from a generator, drawn sizes.

What the largest backward pass of a step asks for follows the shapes of its batch. It is the same for all steps of an
optimizer, or one of a few where a program does something seldom, such as a penalty in every 16th step. How many
passes a step adds up says nothing: batches that are left out are missing from it.
"""

from __future__ import annotations

# Sizes of one optimizer's steps, of which some rise and some fall: data that only grow, or a few kinds of steps, are
# no batches of different shapes.
_LEAST_SIZES = 4
_LEAST_CHANGES = 2


class StepSizes:
    def __init__(self) -> None:
        self._asked = 0
        # Batches of loaders so far.
        self._given = 0
        # By optimizer: the sizes, and the batches that were given before its last step.
        self._of: dict[int, list[int]] = {}
        self._seen: dict[int, int] = {}

    def was_given(self) -> None:
        """By a loader, which tells itself whether its batches differ. Its last one may be shorter."""
        self._given += 1

    def went_backward(self, asked: int) -> None:
        """A backward pass asked for so many bytes."""
        self._asked = max(self._asked, asked)

    def stepped(self, optimizer: int) -> None:
        if self._seen.get(optimizer, 0) == self._given:
            self._of.setdefault(optimizer, []).append(self._asked)
        self._seen[optimizer] = self._given
        self._asked = 0

    def differ(self) -> bool:
        return any(_is_ragged(sizes) for sizes in self._of.values())


def _is_ragged(sizes: list[int]) -> bool:
    pairs = list(zip(sizes, sizes[1:]))
    rises = sum(later > earlier for earlier, later in pairs)
    falls = sum(later < earlier for earlier, later in pairs)
    return len(set(sizes)) >= _LEAST_SIZES and min(rises, falls) >= _LEAST_CHANGES
