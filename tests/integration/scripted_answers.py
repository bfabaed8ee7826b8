"""What the scripted server answers in these tests, and how it misbehaves.

What a request is answered, and whether it fails, follows from its content and from how often the
same content was seen, never from the order in which requests arrive. So a run ends the same however
its calls are ordered. The ways to fail take turns, so that each occurs whatever the prompts say;
what was sent is counted, kind by kind.

In a process of its own (`ChatServerProcess`), `answer` writes a line per request to the file that
`SCRIPT_LOG` names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections import Counter
from pathlib import Path

from accelopt.testing.chat_replies import (
    Cut,
    EmptyChoices,
    ErrorInBody,
    Hang,
    Html,
    MalformedJson,
    NullChoices,
    Status,
    Text,
)

LOG_VARIABLE = "SCRIPT_LOG"
COMPLAINT = "# Your previous answer could not be used"
VOICES = ("scripted", "scripted-b", "scripted-c")
"""Models of the planner: N plans come from one prompt, and only the model tells them apart."""

MOST_FAILURES = 4
"""Of one content; a call with more retries than that can't fail for good."""

PASSING = (
    (Status(429, "slow down, {key}", retry_after="0.02"), "rate_limit"),
    (Status(429, "slow down, {key}"), "rate_limit"),
    (Status(500, "out of memory while serving {key}"), "server_error"),
    (Status(503, "<html>bad gateway for {key}</html>", retry_after="0.01"), "server_error"),
    (ErrorInBody("the engine died on {key}"), "server_error"),
    (Cut(clean=True), "cut_stream"),
    (Cut(clean=False), "cut_stream"),
    (MalformedJson(), "malformed_response"),
    (EmptyChoices(), "malformed_response"),
    (NullChoices(), "malformed_response"),
    (Html(), "malformed_response"),
)
"""What a server sends that fails for a passing reason, and the kind it is to be counted as."""

HANG = (Hang(), "timeout")


def digest(*parts: object) -> int:
    """A number from 0 to 2**32 - 1 that follows from the parts."""
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def prompt_hash(request):
    """The hash under which a run journals the answer."""
    system, user = (message["content"] for message in request.body["messages"])
    return hashlib.sha256(f"{system}\0{user}".encode()).hexdigest()


def role_of(text):
    """Who asks, by a heading of its own."""
    for heading, role in (
        ("# Kernel to improve", "planner"),
        ("# Kernel to start from", "executor"),
        ("# Kernel that failed", "fixer"),
        ("# Slow kernel", "summarizer"),
    ):
        if f"\n{heading}\n" in f"\n{text}":
            return role
    raise ValueError(f"nobody asks like that: {text[-300:]!r}")


def voice_of(request):
    """The planner model that was asked first: the complaint of a repeated question quotes it."""
    _, _, complaint = request.text.partition(COMPLAINT)
    named = re.search(r"I, (scripted[\w-]*),", complaint)
    return named.group(1) if named else request.model


def kernel(latency_us, status, note):
    """A kernel for the dummy backend; its directives stand inside, so bare code keeps them."""
    return (
        f"def kernel(x):\n    # latency_us: {latency_us}\n    # status: {status}\n"
        f"    return x, {latency_us!r}, {status!r}, {note!r}\n"
    )


def dummy_kernels(role, question, text):
    """Kernels for the dummy backend: a bit better or worse than the one that was shown."""
    shown = question.rpartition("# Kernel that failed" if role == "fixer" else "# Kernel to start")
    found = re.search(r"# latency_us: ([\d.]+)", shown[2])
    latency_us = round(float(found.group(1)) * (0.78 + text % 45 / 100), 3)
    broken = ("incorrect", "constraint_violation") if role == "executor" else ("incorrect",)
    one_in = 4 if role == "executor" else 3
    status = broken[text // 7 % len(broken)] if text % one_in == 0 else "ok"
    return kernel(latency_us, status, f"{role} {text}")


def fenced(code):
    """The usual form."""
    return f"Here it is.\n\n```python\n{code}```\n"


ODD_FORMS = (
    fenced,
    lambda code: f"<think>A `def` of ```x``` might do.</think>\n```python\n{code}```",
    lambda code: f"~~~python\n{code}~~~\n",
    lambda code: f"````Python title=kernel.py\n{code}````\nThat is all.",
    lambda code: f"```\n{code}\n```\n\nUse it like `kernel(x)`.",
    lambda code: f"```python\r\n{code}```".replace("\n", "\r\n").replace("\r\r", "\r"),
    lambda code: "1. The kernel:\n\n" + "".join(
        f"   {line}\n" for line in ["```python", *code.splitlines(), "```"]
    ),
    lambda code: code,
    lambda code: f"```python\n{code}",
)  # fmt: skip
"""Forms of an answer that all hold the same kernel."""

UNUSABLE_CODE = (
    (Text(None, refusal="I'm sorry, I can't help with kernels."), "reply_format:refusal"),
    (Text("I'm sorry, but I can't write that."), "reply_format:refusal"),
    (
        Text("```python\ndef kernel(x):\n    return (", finish_reason="length"),
        "reply_format:truncated",
    ),
    (Text("Swap the loops and all will be well."), "reply_format:no_code"),
    (Text(""), "reply_format:empty"),
    (Text("<think>Should I? Could I?</think>"), "reply_format:reasoning_only"),
)
UNUSABLE_LESSONS = (
    (Text("  \n"), "reply_format:empty"),
    (Text("I cannot compare the two."), "reply_format:refusal"),
)


class Script:
    """Answers requests; give it to a `ScriptedChatServer`.

    Args:
        calm: only good answers.
        hang_each: one of so many failures is a hang until the client gives up; hangs cost time.
        kernels: (role, question, number) -> text of a kernel.
        usage: (prompt, completion) tokens that every answer reports.
        log: file for a line per request.

    Attributes:
        sent: what was sent that was no good, by the kind it is to be counted as.
        good: answers with a completion, unusable ones too, by model and prompt hash.
        asked: requests by model and prompt hash.
    """

    def __init__(self, *, calm=False, hang_each=20, kernels=dummy_kernels, usage=(1, 1), log=None):
        self.calm, self.hang_each, self.kernels = calm, hang_each, kernels
        self.usage, self.log = usage, log
        self.sent, self.good, self.asked = Counter(), Counter(), Counter()
        self._failed, self._turns = Counter(), Counter()
        self._lock = threading.Lock()

    def __call__(self, request):
        content = (request.model, prompt_hash(request))
        with self._lock:
            self.asked[content] += 1
            reply, kind = self._failure(content) or (None, "")
            if reply is None:
                reply, kind = self._answer(request, content)
                self.good[content] += 1
            if kind:
                self.sent[kind] += 1
            if self.log is not None:
                self._note(request, content, kind)
        if isinstance(reply, Status | ErrorInBody):
            # The worst that a server can do: it quotes the key.
            quoted = reply.message.replace("{key}", request.headers.get("authorization", ""))
            return type(reply)(**(vars(reply) | {"message": quoted}))
        if isinstance(reply, Text):
            tokens = dict(zip(("prompt_tokens", "completion_tokens"), self.usage, strict=True))
            return Text(**(vars(reply) | tokens))
        return reply

    def _failure(self, content):
        if self.calm or self._failed[content] >= MOST_FAILURES:
            return None
        if digest(*content, self.asked[content]) % 100 >= 35:
            return None
        self._failed[content] += 1
        if self._failed.total() % self.hang_each == self.hang_each // 2:
            return HANG
        return self._next(PASSING)

    def _next(self, ways):
        self._turns[id(ways)] += 1
        return ways[(self._turns[id(ways)] - 1) % len(ways)]

    def _answer(self, request, content):
        question, asked_again, _ = request.text.partition(COMPLAINT)
        question = question.rstrip()
        role = role_of(question)
        number = digest(question, voice_of(request) if role == "planner" else "")
        unusable = not self.calm and not asked_again and digest("unusable", *content) % 4 == 0
        match role:
            case "planner":
                if unusable:
                    # Quoted in the complaint, so that the next model knows who was asked.
                    return Text(f"I'm sorry; I, {request.model}, can't."), "reply_format:refusal"
                return Text(f"Halve the work of loop {number % 100_000}."), ""
            case "summarizer":
                if unusable:
                    return self._next(UNUSABLE_LESSONS)
                return Text(f"**Lesson {number % 1000}**\nDo less of it."), ""
            case _:
                if unusable:
                    return self._next(UNUSABLE_CODE)
                code = self.kernels(role, question, number)
                form = fenced if self.calm else self._next(ODD_FORMS)
                return Text(form(code)), ""

    def _note(self, request, content, kind):
        line = {
            "session": request.headers.get("authorization", ""),
            "model": content[0],
            "prompt": content[1],
            "kind": kind,
            "good": not kind or kind.startswith("reply_format:"),
        }
        with Path(self.log).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def outcome(store):
    """Everything a run decided, without the times it took."""
    from accelopt.beam_history import beam_history

    return {
        "candidates": [
            (c.id, c.parent, c.plan, c.latency_us, c.source.text, c.evaluation.status,
             c.fixer_rounds)
            for c in store.candidates()
        ],
        "lessons": [
            (lesson.id.split("/")[1], lesson.title, lesson.strategy, lesson.speedup, lesson.sign)
            for lesson in store.experiences()
        ],
        "plans": [(plan.id, plan.text) for plan in store.plans()],
        "beams": beam_history(store.journal),
        "best": store.best_path.read_text().split("\n", 1)[1],
    }  # fmt: skip


_script = None
_starting = threading.Lock()


def answer(request):
    """For a server in a process of its own."""
    global _script
    with _starting:
        if _script is None:
            _script = Script(hang_each=40, log=os.environ[LOG_VARIABLE])
    return _script(request)
