"""What a front end raises when a kernel breaks a rule while it is being traced."""

from __future__ import annotations


class KernelFault(Exception):  # noqa: N818 - the kernel's fault, not ours
    """A kernel's fault, found while tracing. Becomes a `Diagnostic`.

    Args:
        rule: the NKI error name where one exists.
        message: what is wrong.
        required: the value the kernel asked for.
        limit: the value that is allowed.
        hint: what to do about it.
        unsupported: true when real NKI would accept it and only this simulator can't.
    """

    def __init__(
        self,
        rule: str,
        message: str,
        *,
        required: object = None,
        limit: object = None,
        hint: str = "",
        unsupported: bool = False,
    ) -> None:
        super().__init__(f"{rule}: {message}")
        self.rule = rule
        self.message = message
        self.required = None if required is None else str(required)
        self.limit = None if limit is None else str(limit)
        self.hint = hint
        self.unsupported = unsupported
        self.line: int | None = None
        """Where, when it is not where the fault is raised."""


def unsupported(what: str) -> KernelFault:
    """The fault for a call that NKI has and this simulator does not yet model."""
    return KernelFault(
        "unsupported_op",
        f"{what} is not modelled by this simulator",
        hint="use another call, or a backend that supports it",
        unsupported=True,
    )
