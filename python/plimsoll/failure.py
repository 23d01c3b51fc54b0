"""Errors that a person can act on: a stable code, the fact, the next step, and where."""

from __future__ import annotations

from typing import Any

BAD_INPUT = 2
MISSING_PACKAGE = 3
JOB_FAILED = 4


class Failure(Exception):
    """Ends what was asked for with one readable line and an exit status."""

    def __init__(
        self, code: str, fact: str, next_step: str, where: str = "", status: int = BAD_INPUT
    ):
        super().__init__(fact)
        self.code = code
        self.fact = fact
        self.next_step = next_step
        self.where = where
        self.status = status

    def __str__(self) -> str:
        return f"{self.fact.rstrip('.')}. Next: {self.next_step}" if self.next_step else self.fact

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors of workers come to the parent as pickles; one that cannot be read would hang a pool.
        return _made_again, (type(self), self.args, self.__dict__.copy())

    def as_json(self) -> dict[str, dict[str, str]]:
        return {
            "error": {
                "code": self.code,
                "fact": self.fact,
                "next": self.next_step,
                "where": self.where,
            }
        }


def _made_again(kind: type[Failure], args: tuple[Any, ...], state: dict[str, Any]) -> Failure:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error
