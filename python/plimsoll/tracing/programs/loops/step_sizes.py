"""Whether the steps of a training differ in size, where no loader tells: batches from a generator, drawn sizes.

What the largest backward pass of a step asks for follows the shapes of its batch. It is the same for all steps of an
optimizer, or one of a few where a program does something seldom, such as a penalty in every 16th step. How many
passes a step adds up says nothing: batches that are left out are missing from it. Where a step adds up many, few steps
are seen, and their single passes tell.
"""

from __future__ import annotations

# Sizes of one optimizer's steps, of which some rise and some fall: data that only grow, or a few kinds of steps, are
# no batches of different shapes.
_LEAST_SIZES = 4
_LEAST_CHANGES = 2
# Of single passes nearly all have a size of their own: losses of several kinds come again in each step.
_LEAST_PASSES = 8
_OWN_SHARE = 0.75


class StepSizes:
    def __init__(self) -> None:
        # By the passes since the last step.
        self._asked: list[int] = []
        # Batches of loaders so far.
        self._given = 0
        # By optimizer: the sizes of steps and of passes, and the batches that were given before its last step.
        self._of: dict[int, list[int]] = {}
        self._passes: dict[int, list[int]] = {}
        self._seen: dict[int, int] = {}

    def was_given(self) -> None:
        """By a loader, which tells itself whether its batches differ. Its last one may be shorter."""
        self._given += 1

    def went_backward(self, asked: int) -> None:
        """A backward pass asked for so many bytes."""
        self._asked.append(asked)

    def stepped(self, optimizer: int) -> None:
        if self._seen.get(optimizer, 0) == self._given:
            self._of.setdefault(optimizer, []).append(max(self._asked, default=0))
            self._passes.setdefault(optimizer, []).extend(self._asked)
        self._seen[optimizer] = self._given
        self._asked = []

    def differ(self) -> bool:
        steps = any(_is_ragged(sizes, _LEAST_SIZES) for sizes in self._of.values())
        return steps or any(
            _is_ragged(sizes, max(_LEAST_PASSES, int(_OWN_SHARE * len(sizes))))
            for sizes in self._passes.values()
        )


def _is_ragged(sizes: list[int], least_sizes: int) -> bool:
    pairs = list(zip(sizes, sizes[1:]))
    rises = sum(later > earlier for earlier, later in pairs)
    falls = sum(later < earlier for earlier, later in pairs)
    return len(set(sizes)) >= least_sizes and min(rises, falls) >= _LEAST_CHANGES
