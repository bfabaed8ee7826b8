"""Reading model replies: the kernel in an answer, the title of a lesson, the no-lesson mark."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Literal

from accelopt.errors import ReplyFormatError
from accelopt.reply_blocks import (
    INVISIBLE,
    Block,
    Reason,
    UnusableReply,
    find_blocks,
    is_blank,
    python_tree,
    split_reasoning,
    strip_reasoning,
    without_end_tokens,
)
from accelopt.reply_edits import apply_edits, apply_to, find_edits, find_edits_and_blocks

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

NO_OPTIMIZATION = "NO OPTIMIZATION FOUND"
"""What a summarizer answers when the two kernels are the same."""

Style = Literal["fenced", "bare", "unclosed_fence", "edits", "diff"]

_BOLD = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)
_SPACES = {ord("\u00a0"): " ", ord("\u202f"): " ", ord("\u3000"): " "}
_CODE_START = re.compile(r"(?:import|from|def|async def|class)[ ]+[A-Za-z_]|@[A-Za-z_]")
_PROSE = re.compile(
    r"(?:[#>*\-\d.)`]+[ ]+|\*\*)?(?:\W{0,2}[^\W\d_][\w'’\-]*[,:;.]?[ ]+){2}.*"
    r"|.*[\u3002\uff0c\uff1a].*|-{3,}|\*{3,}|(?:Note|Notes|Explanation|Usage|Changes)\b.*:.*"
)
_LEFT_OUT = re.compile(
    r"#\s*(?:\.\.\.|…)|#.{0,60}\b(?:rest of the|remains? (?:the same|unchanged)|same as before"
    r"|existing code|unchanged code)",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"(?:(?:i['’]?m|i am|we['’]?re|we are) (?:(?:very |so |really |truly )?sorry|afraid"
    r"|unable|not able|not comfortable)"
    r"|(?:so )?sorry\b|apologies|(?:i|we) (?:do )?apologi[sz]e|my apologies"
    r"|(?:unfortunately|regrettably|regretfully)\b"
    r"|i (?:can['’]?t|can ?not|could not|couldn['’]?t|won['’]?t|will not|must (?:decline|refuse)"
    r"|have to (?:decline|refuse)|decline|refuse|do not feel|don['’]?t feel)\b"
    r"|as an? (?:ai|large|language)\b|i['’]?d rather not\b|no, i\b"
    r"|(?:非常|很|真的)?(?:抱歉|对不起|遗憾)|對不起|我(?:无法|不能|没有办法|拒绝|無法)"
    r"|作为(?:一个|一名|一款)?(?:ai|人工智能|语言模型)"
    r"|申し訳|すみません|죄송|lo siento|je suis désolée?|désolée?\b|es tut mir leid"
    r"|tut mir leid|desculpe|mi dispiace|извините|к сожалению)",
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
    """The name that was asked for, when `entry` has another one."""
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
    characters, and the decoding of JSON and HTML around it.

    Args:
        reply: what the model answered.
        entry: the name that the kernel function must have.
        parent: the kernel that edits in the reply refer to.

    Raises:
        UnusableReply: there is no usable code; `reason` is a stable code, the message a sentence.
    """
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


def refusal(reply: str) -> str | None:
    """The first sentence of a reply that has no code and begins with a refusal, else `None`."""
    text = strip_reasoning(without_end_tokens(reply)).translate(INVISIBLE).lstrip(" \t\n#*_>-\"'“")
    if _REFUSAL.match(text) is None:
        return None
    if find_blocks(text) or find_edits(text) is not None or _bare_code(text) is not None:
        return None
    first = re.split(r"(?<=[.!?])\s|[。！\n]", text[:400], maxsplit=1)[0].strip()
    return first if len(first) <= 200 else first[:197] + "..."


class _Code:
    """A piece of code, parsed once."""

    def __init__(self, text: str, block: Block | None = None) -> None:
        self.block = block
        self.notes: list[str] = []
        tree = python_tree(text) if "def" in text else None
        if tree is None and not text.isascii():
            cleaned = text.translate(INVISIBLE).translate(_SPACES)
            if cleaned != text:
                tree = python_tree(cleaned)
                if tree is not None:
                    text = cleaned
                    self.notes.append("invisible characters were taken out of the code")
        self.text = text.strip("\n") + "\n"
        self.tree = tree
        body = tree.body if tree is not None else []
        self.functions = [node for node in body if isinstance(node, ast.FunctionDef)]

    @cached_property
    def jitted(self) -> list[str]:
        return [node.name for node in self.functions if any(map(_is_jit, node.decorator_list))]

    @cached_property
    def main(self) -> str | None:
        """The only jit-decorated function, else the only function."""
        names = self.jitted or [node.name for node in self.functions]
        return names[0] if len(set(names)) == 1 else None

    def defines(self, entry: str) -> bool:
        if any(node.name == entry for node in self.functions):
            return True
        # kernel = nki.jit(kernel_impl)
        return bool(self.functions) and any(
            isinstance(target, ast.Name) and target.id == entry
            for node in (self.tree.body if self.tree is not None else ())
            if isinstance(node, ast.Assign)
            for target in node.targets
        )

    def is_stub(self, entry: str | None) -> bool:
        """Whether the function is a signature without a body."""
        bodies = [node.body for node in self.functions if entry in {None, node.name}]
        return bool(bodies) and all(
            isinstance(node, ast.Pass)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            for body in bodies
            for node in body
        )

    def uses(self, entry: str) -> bool:
        """Whether it calls or imports the entry function: a usage example, a test."""
        if self.tree is None or self.jitted:
            return False
        return any(
            (isinstance(node, ast.Name) and node.id == entry)
            or (isinstance(node, ast.alias) and (node.asname or node.name) == entry)
            or (isinstance(node, ast.Attribute) and node.attr == entry)
            for node in ast.walk(self.tree)
        )

    def mentions(self, entry: str | None) -> bool:
        """Whether it seems to define the function, syntax errors aside."""
        name = r"\w+" if entry is None else re.escape(entry)
        return re.search(rf"^[ \t]*def[ \t]+{name}[ \t]*\(", self.text, re.MULTILINE) is not None


def _is_jit(decorator: ast.expr) -> bool:
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    name = decorator.attr if isinstance(decorator, ast.Attribute) else decorator
    return (name if isinstance(name, str) else getattr(name, "id", "")).endswith("jit")


class _Reader:
    """Finds the kernel in a reply without reasoning."""

    def __init__(self, answer: str, entry: str | None, parent: str | None) -> None:
        self.answer, self.entry, self.parent = answer, entry, parent
        self.edits, blocks = find_edits_and_blocks(answer)
        pieces = [_Code(block.text, block) for block in blocks if block.is_python]
        self.pieces = pieces
        self.whole = [code for code in pieces if _complete(code) and code.functions]
        self.unclosed = [code for code in pieces if not _complete(code) and not is_blank(code.text)]
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
            parent = _Code(self.parent)
            names = {entry} if entry is not None else {node.name for node in parent.functions}
            fitting = [
                code
                for code in fitting
                if code.text.split() != parent.text.split()
                and any(node.name in names for node in code.functions)
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
        code = _Code(apply_to(edits, self.parent or ""))
        if not code.functions and not code.mentions(None):
            raise UnusableReply("no_function", "the edited code defines no function")
        if code.tree is not None and self.entry is not None and not code.defines(self.entry):
            return self._other_name(code, edits.style)
        return self._result(code, edits.style)

    def _unclosed_block(self) -> ExtractedKernel | None:
        if not self.unclosed:
            return None
        last = self.unclosed[-1]
        if last.tree is None and last.block is not None:
            shorter = _without_prose(last.block.text)
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
        code = _bare_code(self.answer)
        if code is None:
            return None
        if self.entry is not None and not code.defines(self.entry):
            return None if code.uses(self.entry) else self._other_name(code, "bare")
        return self._result(code, "bare")

    def _broken_entry(self) -> ExtractedKernel | None:
        return self._broken() if self.entry is not None else None

    def _broken(self) -> ExtractedKernel | None:
        # A kernel with a syntax error is the executor's mistake, not a formatting one: the judge
        # names the line and the fixer can repair it.
        broken = [
            code
            for code in self.pieces
            if _complete(code) and code.tree is None and code.mentions(self.entry)
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
            code = _Code(block.text, block)
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
        return self._other_name(candidates[-1], "fenced") if candidates else None

    def _other_name(self, code: _Code, style: Style) -> ExtractedKernel:
        if code.main is None:
            names = ", ".join(dict.fromkeys(node.name for node in code.functions)) or "none"
            raise UnusableReply(
                "no_function", f"the code defines no function {self.entry!r} (it defines: {names})"
            )
        return replace(self._result(code, style), entry=code.main, renamed_from=self.entry)

    def _result(self, code: _Code, style: Style) -> ExtractedKernel:
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
            if code.text.split("\n") == _Code(self.parent).text.split("\n"):
                notes.append("the edits change nothing")
            if code.tree is None:
                notes.append("the edited code does not parse")
        entry = self.entry if self.entry is not None else code.main
        return ExtractedKernel(code.text, entry, style, notes=tuple(notes))

    def _unusable(self) -> ReplyFormatError:
        cut_off = [code.text for code in self.unclosed]
        cut_off += [b.text for b in self.other if not b.complete and "def " in b.text]
        if cut_off:
            return UnusableReply("truncated", "the reply was cut off inside its code block")
        if not self.pieces and _is_cut_off(self.answer):
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


def _complete(code: _Code) -> bool:
    return code.block is None or code.block.complete


_TRIES = 12
"""How many ends of bare code are tried."""


def _bare_code(text: str) -> _Code | None:
    """Code without a fence: the whole text, or what is left without prose around it."""
    if "def " not in text:
        return None
    code = _Code(text)
    if code.functions:
        return code
    if code.tree is not None:
        return None
    lines = text.split("\n")
    first = next((row for row, line in enumerate(lines) if _CODE_START.match(line)), None)
    if first is None:
        return None
    return _without_prose("\n".join(lines[first:]))


def _is_prose(line: str) -> bool:
    """Whether a line at the left margin can't be the beginning of a statement."""
    line = line[:300].rstrip()
    return (
        line[:1].strip() != ""
        and _CODE_START.match(line) is None
        and line[-1] not in "([{,=\\"
        and _PROSE.fullmatch(line) is not None
        and python_tree(line) is None
        and python_tree(f"{line}\n    0") is None
    )


def _without_prose(text: str) -> _Code | None:
    """The code at the beginning of a text that goes on with paragraphs of prose.

    Only whole paragraphs at the left margin that can't be code are cut off, so code that was cut
    short is not taken for code with an explanation after it.
    """
    lines = text.split("\n")
    ends = (
        row for row in range(1, len(lines)) if not lines[row - 1].strip() and _is_prose(lines[row])
    )
    for end in [*islice(ends, _TRIES), len(lines)]:
        code = _Code("\n".join(lines[:end]))
        if code.functions:
            return code
    return None


def _is_cut_off(text: str) -> bool:
    """Whether a text without fences ends inside code (or inside JSON with code)."""
    start = text.lstrip()
    if start[:1] == "{" and re.search(r"def \w+\(", start) and not start.rstrip().endswith("}"):
        return True
    lines = text.split("\n")
    first = next((row for row, line in enumerate(lines) if _CODE_START.match(line)), None)
    if first is None or not re.search(r"^def \w+\(", "\n".join(lines[first:]), re.MULTILINE):
        return False
    last = next(line for line in reversed(lines) if line.strip())
    return last[:1].isspace() or _CODE_START.match(last) is not None


def extract_title(reply: str) -> str:
    """The first bold span of a summarizer's reply, else its first heading or line; one line."""
    text = strip_reasoning(reply).strip()
    found = _BOLD.search(text)
    if found is not None:
        return " ".join(found.group(1).split())
    first = next((line for line in text.splitlines() if line.strip()), "")
    return first.strip().strip("#*` ").strip()


def is_no_optimization(reply: str) -> bool:
    """Whether a summarizer says that there is nothing to learn from the pair."""
    text = strip_reasoning(reply).strip()
    if not text:
        return True
    first = text.splitlines()[0].strip("#*_`>-. \t").upper()
    return first.replace("OPTIMISATION", "OPTIMIZATION").startswith(NO_OPTIMIZATION)
