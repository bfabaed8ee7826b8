"""Reading model replies: the kernel in an answer, the title of a lesson, the no-lesson mark."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from accelopt.lesson_text import NO_OPTIMIZATION, extract_title, is_no_optimization
from accelopt.reply_apply import apply_edits, apply_to
from accelopt.reply_blocks import find_blocks
from accelopt.reply_code import Code, bare_code, is_cut_off, without_prose
from accelopt.reply_edits import find_edits_and_blocks
from accelopt.reply_errors import Reason, UnusableReply
from accelopt.reply_names import renamed, with_imports
from accelopt.reply_plain import plain_kernel
from accelopt.reply_reasoning import split_reasoning, strip_reasoning
from accelopt.reply_refusal import refusal
from accelopt.reply_text import is_blank, plain_lines, without_end_tokens

__all__ = [
    "NO_OPTIMIZATION",
    "ExtractedKernel",
    "Reason",
    "UnusableReply",
    "apply_edits",
    "extract_kernel",
    "extract_reply",
    "extract_title",
    "is_no_optimization",
    "refusal",
    "strip_reasoning",
]

Style = Literal["fenced", "bare", "unclosed_fence", "edits", "diff"]

_LEFT_OUT = re.compile(
    r"#\s*(?:\.\.\.|…)|#.{0,60}\b(?:rest of the|remains? (?:the same|unchanged)|same as before"
    r"|existing code|unchanged code)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ExtractedKernel:
    """The kernel in a reply, and how it was found."""

    source: str
    entry: str | None
    """The entry function that the source defines; `None` when it is unclear which one it is."""
    style: Style
    renamed_from: str | None = None
    """The name that the reply gave the entry function, when it was another one."""
    notes: tuple[str, ...] = ()
    """What a person, or the next request, may want to know about the reply."""


def extract_kernel(reply: str, *, entry: str | None = None, parent: str | None = None) -> str:
    """The kernel source in an executor's or fixer's reply; see `extract_reply`.

    Raises:
        ReplyFormatError: there is no usable code; the message says why.
    """
    return extract_reply(reply, entry=entry, parent=parent).source


def extract_reply(
    reply: str, *, entry: str | None = None, parent: str | None = None
) -> ExtractedKernel:
    """The kernel in a reply.

    The last complete code block that defines the entry function (or, without `entry`, a function)
    wins; then edits, if there is a parent to apply them to; then a last block without a closing
    fence, if what is there parses; then code without a fence. A block with a syntax error comes
    last. Code is taken as it stands: the only changes are to indentation, line ends and invisible
    characters, the decoding of JSON and HTML around it, the name of the entry function, and import
    lines of the parent for names that the code uses and leaves undefined.

    Args:
        reply: what the model answered.
        entry: the name that the kernel function must have.
        parent: the kernel that the model was shown: edits in the reply refer to it.

    Raises:
        UnusableReply: there is no usable code; `reason` is a stable code, the message a sentence.
    """
    plain = plain_kernel(reply, entry, parent)
    if plain is not None:
        return ExtractedKernel(plain, entry, "fenced")
    return _read_closely(reply, entry, parent)


def _read_closely(reply: str, entry: str | None, parent: str | None) -> ExtractedKernel:
    text = without_end_tokens(reply)
    if is_blank(text):
        raise UnusableReply("empty", "the reply is empty")
    answer, open_reasoning = split_reasoning(text)
    if not is_blank(answer):
        return _Reader(answer, entry, parent).read()
    blocks = find_blocks(open_reasoning) if open_reasoning.endswith(("```", "~~~")) else []
    if blocks and blocks[-1].complete:
        # The model stopped after its code on purpose and only forgot to end its reasoning.
        found = _Reader(open_reasoning, entry, parent).read()
        return replace(found, notes=(*found.notes, "the reasoning in the reply is not closed"))
    raise UnusableReply("reasoning_only", "the reply is empty apart from its reasoning")


class _Reader:
    """Finds the kernel in a reply without reasoning."""

    def __init__(self, answer: str, entry: str | None, parent: str | None) -> None:
        self.answer, self.entry, self.parent = answer, entry, parent
        self.shown = Code("" if parent is None else plain_lines(parent))
        self.edits, blocks = find_edits_and_blocks(answer)
        pieces = [Code(block.text, block) for block in blocks if block.is_python]
        self.pieces = pieces
        self.whole = [code for code in pieces if code.complete and code.functions]
        self.unclosed = [code for code in pieces if not code.complete and not is_blank(code.text)]
        self.other = [block for block in blocks if not block.is_python]

    def read(self) -> ExtractedKernel:
        steps: Sequence[Callable[[], ExtractedKernel | None]] = (
            self._complete_block,
            self._edited,
            self._unclosed_block,
            self._bare,
            self._broken_entry,
            self._mistagged,
            self._renamed,
            self._broken,
        )
        for step in steps:
            found = step()
            if found is not None:
                return found
        raise self._unusable()

    def _complete_block(self) -> ExtractedKernel | None:
        entry = self.entry
        fitting = [code for code in self.whole if entry is None or code.defines(entry)]
        if self.edits is not None and self.parent is not None:
            # Beside edits, a block is either the kernel they start from or the complete result.
            names = {entry} if entry is not None else self.shown.names
            fitting = [
                code
                for code in fitting
                if code.text.split() != self.shown.text.split() and names & code.names
            ]
        full = [code for code in fitting if not code.is_stub(entry)]
        if full or (fitting and self.edits is None):
            return self._result((full or fitting)[-1], "fenced")
        return None

    def _edited(self) -> ExtractedKernel | None:
        edits = self.edits
        if edits is None:
            return None
        if self.parent is None and (edits.whole_file is None or edits.unfinished):
            if self.whole:
                return None
            raise UnusableReply(
                "no_code", "the reply holds edits, but a complete kernel was asked for"
            )
        code = Code(apply_to(edits, self.parent or ""))
        if not code.functions and not code.mentions(None):
            raise UnusableReply("no_function", "the edited code defines no function")
        if code.tree is not None and self.entry is not None and not code.defines(self.entry):
            return self._other_name(code, edits.style, self.entry)
        return self._result(code, edits.style)

    def _unclosed_block(self) -> ExtractedKernel | None:
        if not self.unclosed:
            return None
        last = self.unclosed[-1]
        if last.tree is None and last.block is not None:
            shorter = without_prose(last.block.text)
            if shorter is not None:
                last = shorter
                last.notes.append("text after the code was left out")
        if not last.functions or (self.entry is not None and not last.defines(self.entry)):
            return None
        last.notes.append("the code block is not closed")
        return self._result(last, "unclosed_fence")

    def _bare(self) -> ExtractedKernel | None:
        if self.pieces:
            return None
        code = bare_code(self.answer)
        if code is None:
            return None
        if self.entry is not None and not code.defines(self.entry):
            return None if code.uses(self.entry) else self._other_name(code, "bare", self.entry)
        return self._result(code, "bare")

    def _broken_entry(self) -> ExtractedKernel | None:
        return self._broken() if self.entry is not None else None

    def _broken(self) -> ExtractedKernel | None:
        # A kernel with a syntax error is the executor's mistake, not a formatting one: the judge
        # names the line and the fixer can repair it.
        broken = [
            code
            for code in self.pieces
            if code.complete and code.tree is None and code.mentions(self.entry)
        ]
        if not broken:
            return None
        broken[-1].notes.append("the code does not parse")
        return self._result(broken[-1], "fenced")

    def _mistagged(self) -> ExtractedKernel | None:
        """A block with the tag of another language that is Python after all."""
        for block in reversed(self.other):
            if not block.complete or "def " not in block.text:
                continue
            code = Code(block.text, block)
            if code.functions and (self.entry is None or code.defines(self.entry)):
                code.notes.append(f"the code block has the tag {block.tag[:40]!r}")
                return self._result(code, "fenced")
        return None

    def _renamed(self) -> ExtractedKernel | None:
        entry = self.entry
        if entry is None or any(code.mentions(entry) for code in self.unclosed):
            return None
        candidates = [code for code in self.whole if not code.uses(entry)]
        candidates = [code for code in candidates if code.main is not None] or candidates
        return self._other_name(candidates[-1], "fenced", entry) if candidates else None

    def _other_name(self, code: Code, style: Style, entry: str) -> ExtractedKernel:
        """The result where the entry function has another name, which is put right."""
        # A function that the parent has too is a helper and not the entry function.
        given = None if code.main in self.shown.names else code.main
        text = None if given is None else renamed(code.text, given, entry)
        if text is None:
            names = ", ".join(dict.fromkeys(node.name for node in code.functions)) or "none"
            raise UnusableReply(
                "no_function", f"the code defines no function {entry!r} (it defines: {names})"
            )
        return replace(self._result(code, style, text), renamed_from=given)

    def _result(self, code: Code, style: Style, text: str = "") -> ExtractedKernel:
        text = text or code.text
        notes = list(code.notes)
        if code.block is not None and not code.block.fenced and style == "fenced":
            style = "bare"
        others = sum(other is not code and bool(other.functions) for other in self.pieces)
        if others and style == "fenced":
            notes.append(f"{others} other code block{'s' * (others > 1)} left out")
        if style != "unclosed_fence" and any(other is not code for other in self.unclosed):
            notes.append("the reply has a code block that is not closed")
        if _LEFT_OUT.search(code.text) is not None:
            notes.append("the code may leave parts out")
        if style in {"edits", "diff"} and self.parent is not None:
            if text == self.shown.text:
                notes.append("the edits change nothing")
            if code.tree is None:
                notes.append("the edited code does not parse")
        elif (completed := with_imports(text, self.shown.text)) is not None:
            text = completed
            notes.append("import lines of the parent were added")
        entry = self.entry if self.entry is not None else code.main
        return ExtractedKernel(text, entry, style, notes=tuple(notes))

    def _unusable(self) -> UnusableReply:
        cut_off = [code.text for code in self.unclosed]
        cut_off += [b.text for b in self.other if not b.complete and "def " in b.text]
        if cut_off:
            return UnusableReply("truncated", "the reply was cut off inside its code block")
        if not self.pieces and is_cut_off(self.answer):
            return UnusableReply("truncated", "the reply was cut off inside its code")
        if self.pieces:
            name = "a function" if self.entry is None else f"a function {self.entry!r}"
            return UnusableReply("no_function", f"no code block in the reply defines {name}")
        refused = refusal(self.answer)
        if refused is not None:
            return UnusableReply(
                "refusal", f"the reply is a refusal and has no code block: {refused}"
            )
        return UnusableReply("no_code", "the reply has no code block")
