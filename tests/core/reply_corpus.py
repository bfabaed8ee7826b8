"""Replies in the styles that models have, each with the kernel or the reason it should give.

`want` is a source or a reason code. In the replies, `«K»` stands for the kernel `K`, `«B»` for its
function alone, `«H»` for a helper, `«U»` for a usage example, `«O»` for another version of the kernel.
"""

# ruff: noqa: E501
from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import get_args

from accelopt.replies import Reason

K = """\
import nki
import nki.language as nl


@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        tile = nl.load(a[i])
        nl.store(out[i], nl.add(tile, b))
    return out
"""
O = K.replace("affine_range(4)", "sequential_range(4)")  # noqa: E741
H = "def helper(x):\n    return 2 * x\n"
U = 'import numpy as np\n\nx = np.ones((4, 4))\nprint("ok", kernel(x, x))\n'
BODY = K.split("\n\n\n")[1]
MANY = "import nki  # the package\nfrom nki import (\n    isa,\n    language as nl,\n)\n"
LOCAL = BODY.replace(
    "    out = nl", "    import nki\n    import nki.language as nl\n\n    out = nl", 1
)
RENAMED = K.replace("def kernel", "def kernel_v2")
REASONS = frozenset(get_args(Reason))


@dataclass(frozen=True)
class Case:
    name: str
    reply: str
    want: str
    entry: str | None = "kernel"
    parent: str | None = None
    style: str = "fenced"
    found: str | None = "kernel"
    """The name that the kernel function has in the reply; in `want` it has the one asked for."""

    @property
    def reason(self) -> str | None:
        return self.want if self.want in REASONS else None


def _case(name: str, reply: str, want: str = K, **more: object) -> Case:
    for mark, text in {"«K»": K, "«B»": BODY, "«O»": O, "«H»": H, "«U»": U, "«R»": RENAMED}.items():
        reply = reply.replace(mark, text)
    return Case(name, reply, want, **more)  # type: ignore[arg-type]


def _indented(text: str, by: str) -> str:
    return "".join(by + line if line.strip() else line for line in text.splitlines(keepends=True))


DOC = '    """Adds.\n\n    ```python\n    kernel(a, b)\n    ```\n    """\n'
WITH_DOC = K.replace("    out = nl", DOC + "    out = nl", 1)
FLUSH_DOC = WITH_DOC.replace("    ```", "```")
WITH_STRING = K.replace(
    "    return out", '    marks = "```"\n    more = """\n```\n"""\n    return out'
)
WITH_TAGS = K.replace("    return out", '    note = "<think>x</think> y"\n    return out')
LONG = K.replace("    return out", f"    big = {'1 + ' * 5000}1\n    return out")
BROKEN = K.replace("kernel(a, b):", "kernel(a, b)")
OPEN_DOC = K.replace("    out = nl", '    """Adds.\n    out = nl', 1)
SMART = K.replace("a.shape", "“x”")
SEPARATOR = K.replace("    return out", '    s = "a\u2028b\x0cc\x85d"\n    return out')
ONE_LINE = K.rstrip("\n")

FENCED = [
    _case("gpt: intro, block, bullets", "Sure! Here it is:\n\n```python\n«K»```\n\n- **Faster** now"),
    _case("gpt: full file heading", "### Here is the full file\n\n```python\n«K»```"),
    _case("claude: plan, block, summary", "I'll fuse it.\n\n```python\n«K»```\n\nKey changes:\n1. x"),
    _case("qwen: block only", "```python\n«K»```"),
    _case("qwen: end token after the fence", "```python\n«K»```<|im_end|>\n<|endoftext|>"),
    _case("llama: end token on the next line", "```\n«K»```\n<|eot_id|>"),
    _case("deepseek: end token", "```python\n«K»```<｜end▁of▁sentence｜>"),
    _case("r1: closed reasoning", "<think>\nHm.\n```python\n«O»```\n</think>\n\n```python\n«K»```"),
    _case("r1: no opening tag", "Hm, so\n```python\n«O»```\n</think>\n```python\n«K»```"),
    _case("r1: draft not closed", "<think>\n```python\ndef ker\n</think>\n```python\n«K»```"),
    _case("r1: reasoning never closed", "<think>\nI have it.\n\n```python\n«K»```\n"),
    _case("two kinds of reasoning", "<analysis>a</analysis><reasoning>b\n</reasoning>\n```\n«K»```"),
    _case("magistral", "[THINK]hm ```x```[/THINK]```python\n«K»```"),
    _case("kimi", "◁think▷hm◁/think▷\n```python\n«K»```"),
    _case(
        "gpt-oss channels",
        "<|channel|>analysis<|message|>```python\n«O»```<|end|><|start|>assistant"
        "<|channel|>final<|message|>Here:\n```python\n«K»```<|return|>",
    ),
    _case("reasoning after the answer", "```python\n«K»```\n<think>was that right?"),
    _case("reasoning tags in a string", "```python\n" + WITH_TAGS + "```", WITH_TAGS),
    _case("answer tag around the fence", "<answer>\n```python\n«K»```\n</answer>"),
    _case("tag python3", "```python3\n«K»```"),
    _case("tag nki", "```nki\n«K»```"),
    _case("tag PY", "```PY\n«K»```"),
    _case("tag with a file name", "```python:kernel.py\n«K»```"),
    _case("tag with a title", '``` python title="kernel.py" linenums="1"\n«K»```'),
    _case("tag is a file name", "```src/kernel.py\n«K»```"),
    _case("pandoc attributes", "```{.python .numberLines}\n«K»```"),
    _case("wrong tag", "```cpp\n«K»```"),
    _case("no tag", "```\n«K»```"),
    _case("tildes", "~~~python\n«K»~~~"),
    _case("four backticks", "````python\n«K»````"),
    _case("markdown around it", "````markdown\n# Kernel\n```python\n«K»```\n````"),
    _case("markdown around it, same fence", "```markdown\n# Kernel\n```python\n«K»```\n```"),
    _case("fence around a fence", "````\n```python\n«K»```\n````"),
    _case("blank lines in the fence", "```python\n\n\n«K»\n\n```"),
    _case("fence after words", "Here is the code: ```python\n«K»```"),
    _case("fence at the end of the last line", f"```python\n{ONE_LINE}```\nDone."),
    _case("indented fence", _indented("```python\n«K»```".replace("«K»", K), "    ")),
    _case("fence in a list", "1. Do this:\n\n" + _indented(f"```python\n{K}```", "   ") + "\n2. ok"),
    _case("fence on the list mark", "- ```python\n" + _indented(K, "  ") + "  ```\n- ok"),
    _case("tabs before the fence", _indented(f"```python\n{K}```", "\t")),
    _case("block quote", "\n".join("> " + line for line in f"```python\n{K}```".split("\n"))),
    _case("indented code in the fence", f"```python\n{_indented(K, '    ')}```"),
    _case("html details", "<details>\n<summary>Code</summary>\n\n```python\n«K»```\n\n</details>"),
    _case("fence in a docstring", f"```python\n{WITH_DOC}```\nThat's it.", WITH_DOC),
    _case("tagged fence at the margin of a docstring", f"```python\n{FLUSH_DOC}```", FLUSH_DOC),
    _case("fences in strings", f"```python\n{WITH_STRING}```\n```bash\nls\n```", WITH_STRING),
    _case("docstring never closed", f"```python\n{OPEN_DOC}```\nIt adds.\n", OPEN_DOC),
    _case("docstring never closed, twice", f"```\n{OPEN_DOC}```\nor\n```\n{OPEN_DOC}```", OPEN_DOC),
    _case("syntax error", f"```python\n{BROKEN}```", BROKEN),
    _case("syntax error, then a test", f"```\n{BROKEN}```\n```\ndef test():\n    pass\n```", BROKEN),
    _case("smart quotes in the code", f"```python\n{SMART}```", SMART),
    _case("smart quotes around", "“Sure” – here’s the kernel:\n```python\n«K»```\n‘Done’"),
    _case("very long line", f"```python\n{LONG}```", LONG),
    _case("unusual line separators in a string", f"```python\n{SEPARATOR}```", SEPARATOR),
    _case("crlf", "Sure.\n```python\n«K»```\n".replace("«K»", K).replace("\n", "\r\n")),
    _case("cr only", f"```python\n{K}```\n".replace("\n", "\r")),
    _case("bom", "\ufeff```python\n«K»```"),
    _case("bom in the block", "```python\n\ufeff«K»```"),
    _case("zero-width before the fence", "\u200b```python\n«K»\u200b```\u200b"),
    _case("zero-width in the code", "```python\n" + K.replace("tile", "ti\u200ble") + "```"),
    _case("no-break spaces", "```python\n" + K.replace("    ", "\u00a0" * 4) + "```"),
    _case("chinese", "好的，下面是优化后的内核：\n```python\n«K»```\n说明：循环可以并行。"),
    _case("japanese, full-width", "以下がカーネルです。\n\n```python\n«K»```\n以上です！"),
    _case("helper before", "First a helper:\n```python\n«H»```\nThe kernel:\n```python\n«K»```"),
    _case("helper after", "```python\n«K»```\nMaybe also:\n```python\n«H»```"),
    _case("two alternatives", "Option A:\n```python\n«O»```\nOption B:\n```python\n«K»```"),
    _case("alternative cut off", "```python\n«K»```\nOr:\n```python\nimport nki\n\ndef kernel(a"),
    _case("explanation, usage, output", "```python\n«K»```\nUse:\n```python\n«U»```\n```text\nok\n```"),
    _case("usage in a function", "```python\n«K»```\n```\ndef main():\n    return kernel(1, 2)\n```"),
    _case("signature after the code", "```python\n«K»```\n```python\ndef kernel(a, b): ...\n```"),
    _case("shell before", "```bash\npip install nki\n```\n```python\n«K»```"),
    _case("diff after the code", "```python\n«K»```\nChanged:\n```diff\n-x = 1\n+x = 2\n```"),
    _case("inline code", "Use `kernel` and ```nl.add``` as here:\n```python\n«K»```"),
    _case("block never closed before the next", "```python\n«O»\n\n```python\n«K»```"),
    _case("refusal, then code after all", "I'm sorry, I can't test it.\n\n```python\n«K»```"),
    _case("alias", "```python\n«R»kernel = kernel_v2\n```", RENAMED + "kernel = kernel_v2\n"),
    _case("renamed", "```python\n«R»```", K, found="kernel_v2"),
    _case(
        "renamed, uses a function of that name",
        "```python\n" + RENAMED.replace("nl.add", "nl.kernel") + "```",
        K.replace("nl.add", "nl.kernel"),
        found="kernel_v2",
    ),
    _case(
        "renamed, with helpers",
        "```python\n«H»\n\n«R»```\n```\nkernel(1, 2)\n```",
        H + "\n\n" + K,
        found="kernel_v2",
    ),
    _case(
        "renamed, called in other places",
        "```python\n«R»\n\ndef main(kernel_v2=None):\n    return kernel_v2\n\n\nrun = [kernel_v2]\n```",
        K + "\n\ndef main(kernel_v2=None):\n    return kernel_v2\n\n\nrun = [kernel]\n",
        found="kernel_v2",
    ),
    _case(
        "renamed, wide characters",
        "```python\n" + RENAMED.replace("b):", 'b, ä="é"): # ü') + 'z = "é", kernel_v2\n```',
        K.replace("b):", 'b, ä="é"): # ü') + 'z = "é", kernel\n',
        found="kernel_v2",
    ),
    _case("renamed, used in an f-string", '```python\n«R»s = f"{kernel_v2}"\n```',
          K + 's = f"{kernel}"\n', found="kernel_v2"),
    _case("imports left out", "```python\n«B»```", parent=K),
    _case("imports left out, some are in the function", "```python\n«B»```".replace("«B»", LOCAL),
          "import nki\n\n\n" + LOCAL, parent=K),
    _case("renamed, imports left out", "```python\n«B»```".replace("«B»", BODY.replace("kernel", "k2")),
          parent=K, found="k2"),
    _case("one import left out", "```python\nimport nki\n«B»```", K.replace(
        "import nki\nimport nki.language as nl", "import nki.language as nl\nimport nki").replace(
        "nki\n\n\n@", "nki\n@"), parent=K),
    _case("imports left out, future kept", "```python\nfrom __future__ import annotations\n\n\n«B»```",
          "from __future__ import annotations\n" + K.split("\n\n\n")[0] + "\n\n\n\n\n" + BODY, parent=K),
    _case("imports left out, one is bound", "```python\n«B»```".replace("«B»", BODY + "nki = None\n"),
          "import nki.language as nl\n\n\n" + BODY + "nki = None\n", parent=K),
    _case("imports left out, several lines", "```python\n«B»```", MANY + "\n\n" + BODY,
          parent='"""Doc."""\nimport os, sys\nimport numpy as np; x = 1\n' + MANY + BODY),
    _case("no entry asked for", "```python\n«H»```", H, entry=None, found="helper"),
    _case("no entry, several", "```\n«H»def g():\n    return 1\n```", f"{H}def g():\n    return 1\n",
          entry=None, found=None),
]  # fmt: skip

BARE = [
    _case("bare", "«K»"),
    _case("bare with prose", "Here is the kernel:\n\n«K»\nThis kernel adds two tensors.\n"),
    _case("bare with a list after", "«K»\n- The loop is parallel now.\n- No spill is left.\n"),
    _case("bare, reasoning before", "<think>easy</think>«K»"),
    _case("bare, chinese around", "代码如下：\n\n«K»\n这个内核把两个张量相加。"),
    _case("bare with end token", f"{ONE_LINE}<|im_end|>"),
    _case("bare, renamed", "«R»", K, found="kernel_v2"),
    _case("code tag", "<code>\n«K»</code>"),
    _case("kernel tag", "Here:\n<kernel>\n«K»</kernel>\nDone."),
    _case("codellama tags", "[PYTHON]\n«K»[/PYTHON]"),
    _case("html", f'<pre><code class="language-python">{html.escape(K)}</code></pre>'),
    _case("json", json.dumps({"thoughts": "fuse", "code": K})),
    _case("json in a fence", "```json\n" + json.dumps({"kernel": K}, indent=2) + "\n```"),
    _case("json with line ends", '{"code": "' + K.replace('"', "'") + '"}'),
    _case("json with prose around", "Here:\n\n" + json.dumps({"code": K}) + "\n\nGood luck."),
    _case("json list", json.dumps([{"role": "assistant", "content": [K, 1, None]}])),
]
BARE = [Case(**{**vars(case), "style": "bare"}) for case in BARE]
OPEN = [
    _case("fence in json", json.dumps({"answer": f"Sure:\n```python\n{K}```"})),
    _case("not closed", "```python\n«K»", style="unclosed_fence"),
    _case("not closed, prose after", "```\n«K»\nThis adds the two.\n", style="unclosed_fence"),
    _case("not closed, token after", "```python\n«K»<|im_end|>", style="unclosed_fence"),
]

USELESS = [
    _case("nothing", "", "empty"),
    _case("white space", " \n\t\r\n", "empty"),
    _case("nothing visible", "\ufeff\u200b\n", "empty"),
    _case("only a token", "<|im_end|>", "empty"),
    _case("only reasoning", "<think>I could fuse.</think>\n", "reasoning_only"),
    _case("reasoning cut off", "<think>Let me see. The loop", "reasoning_only"),
    _case("reasoning cut off after a draft", "<think>\n```\n«K»```\nNo, wait", "reasoning_only"),
    _case("code in the reasoning only", "<think>\n```\n«K»```\n</think>", "reasoning_only"),
    _case("channels without an answer", "<|channel|>analysis<|message|>«K»", "reasoning_only"),
    _case("refusal: sorry", "I'm sorry, but I can't help with that.", "refusal"),
    _case(
        "refusal: curly apostrophe", "I’m sorry, but I can’t assist with that request.", "refusal"
    ),
    _case("refusal: cannot", "I cannot produce this kernel. It would be unsafe.", "refusal"),
    _case("refusal: unable", "**I am unable to write this kernel.**", "refusal"),
    _case("refusal: unfortunately", "Unfortunately, I don't know the NKI language.", "refusal"),
    _case("refusal: as an AI", "As an AI language model, I have no compiler.", "refusal"),
    _case("refusal: after reasoning", "<think>no</think>\n\nI must decline.", "refusal"),
    _case("refusal: chinese", "抱歉，我无法完成这个请求。", "refusal"),
    _case("refusal: chinese AI", "作为一个人工智能，我不能写这个内核。", "refusal"),
    _case("refusal: apology", "My apologies, that's beyond what I can do.", "refusal"),
    _case("only prose", "The loop should be tiled by 128 and then fused.", "no_code"),
    _case("only inline code", "Use `nl.add` on ```x``` instead.", "no_code"),
    _case("only a shell block", "```bash\npip install nki\n```", "no_code"),
    _case("other language", "```cpp\nint main() { return 0; }\n```", "no_code"),
    _case("json without code", '{"code": "", "error": "no def found"}', "no_code"),
    _case("edits without a parent", "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE", "no_code"),
    _case("only a usage example", "Call it so:\n```python\n«U»```", "no_function"),
    _case("usage in a function only", "```\ndef main():\n    kernel(1, 2)\n```", "no_function"),
    _case(
        "fragment", "Change the loop:\n```python\nfor i in range(4):\n    f(i)\n```", "no_function"
    ),
    _case("only helpers", "```python\n«H»def other(x):\n    return x\n```", "no_function"),
    _case("only a helper of the parent", "```python\n«H»```", "no_function", parent=H + K),
    _case(
        "renamed, calls the old one",
        "```python\n" + RENAMED.replace("nl.add(", "kernel(") + "```",
        "no_function",
    ),
    _case(
        "renamed, another thing has the name",
        "```python\nfrom ops import kernel\n«R»```",
        "no_function",
    ),
    _case("empty block", "```python\n```", "no_function"),
    _case("cut off in a line", "```python\n" + K[:-40], "truncated"),
    _case("cut off after an operator", "```python\n" + K[: K.index("nl.load")], "truncated"),
    _case(
        "cut off, helper complete", "```\n«H»```\n```\ndef kernel(a, b):\n    x = (", "truncated"
    ),
    _case("cut off without a fence", K[: K.index("(tile")], "truncated"),
    _case("cut off json in a fence", "```json\n" + json.dumps({"code": K})[:-30], "truncated"),
    _case("cut off json", json.dumps({"code": K})[:-30], "truncated"),
]

_LOOP, _NEW = "    for i in nl.affine_range(4):\n", "    for i in nl.sequential_range(4):\n"
_SR = f"<<<<<<< SEARCH\n{_LOOP}=======\n{_NEW}>>>>>>> REPLACE\n"
_HUNK = (
    " def kernel(a, b):\n     out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
    f"-{_LOOP}+{_NEW}         tile = nl.load(a[i])\n"
)
_FILES = "--- a/kernel.py\n+++ b/kernel.py\n"
_DIFF = f"{_FILES}@@ -6,4 +6,4 @@\n{_HUNK}"
_DIFF_NO_BLANK = _DIFF.replace("\n ", "\n")
BOTH = O.replace("nl.add(tile, b)", "nl.add(b, tile)")
_SR2 = (
    "<<<<<<< SEARCH\n        nl.store(out[i], nl.add(tile, b))\n=======\n"
    "        nl.store(out[i], nl.add(b, tile))\n>>>>>>> REPLACE\n"
)
TWICE = K.replace("    return out\n", "    x = 1\n    y = 2\n    x = 1\n    return out\n")
_TWO_X = TWICE[: TWICE.rindex("    x = 1")] + "    x = 3\n    return out\n"
_SR_X = "<<<<<<< SEARCH\n    x = 1\n=======\n    x = 3\n>>>>>>> REPLACE"


def _edit(name: str, reply: str, want: str = O, **more: object) -> Case:
    return _case(name, reply, want, **{"parent": K, "style": "edits", **more})


SEARCH_REPLACE = [
    _edit("search/replace", _SR),
    _edit("in a fence, with a file name", f"kernel.py\n```python\n{_SR}```\nDone."),
    _edit("a fence for each", f"One:\n```\n{_SR}```\nTwo:\n```\n{_SR2}```", BOTH),
    _edit("two in one fence", f"```python\nkernel.py\n{_SR}\n{_SR2}```", BOTH),
    _edit("fences inside", f"<<<<<<< SEARCH\n```python\n{_LOOP}```\n=======\n```\n{_NEW}```\n"
          ">>>>>>> REPLACE"),
    _edit("cline", f"------- SEARCH\n{_LOOP}=======\n{_NEW}+++++++ REPLACE"),
    _edit("aider", f"<<<<<<< ORIGINAL\n{_LOOP}=======\n{_NEW}>>>>>>> UPDATED"),
    _edit("crlf edits", _SR.replace("\n", "\r\n")),
    _edit("crlf parent", _SR, parent=K.replace("\n", "\r\n")),
    _edit("trailing blanks", _SR.replace("(4):\n=", "(4):  \n=")),
    _edit("blank edges", _SR.replace("SEARCH\n", "SEARCH\n\n").replace("\n=", "\n\n=")),
    _edit("without indentation", _SR.replace("    for", "for")),
    _edit("indented edits", _indented(_SR, "  ")),
    _edit("the same edit twice", _SR + "So again:\n" + _SR),
    _edit("reasoning with a draft", f"<think>{_SR2}</think>\n{_SR}"),
    _edit("the parent is quoted first", f"Now:\n```python\n«K»```\nEdit:\n{_SR}"),
    _edit("the result is given in full", f"{_SR}\nAll of it:\n```python\n{BOTH}```", BOTH,
          style="fenced"),
    _edit("usage after", f"{_SR}\n```python\n«U»```"),
    _edit("deletion", "<<<<<<< SEARCH\n@nki.jit\n=======\n>>>>>>> REPLACE", K.replace("@nki.jit\n", "")),
    _edit("renaming edit", "<<<<<<< SEARCH\ndef kernel(a, b):\n=======\ndef kernel_v2(a, b):\n"
          ">>>>>>> REPLACE", K, found="kernel_v2"),
    _edit("whole file", "<<<<<<< SEARCH\n=======\n«O»>>>>>>> REPLACE"),
    _edit("not found", _SR.replace("for i", "for j", 1), "edit_not_found"),
    _edit("second not found", _SR + _SR2.replace("out[i]", "o[i]", 1), "edit_not_found"),
    _edit("ambiguous", _SR_X, "edit_ambiguous", parent=TWICE),
    _edit("longer search text", _SR_X.replace("SEARCH\n", "SEARCH\n    y = 2\n").replace(
        "=\n", "=\n    y = 2\n"), _TWO_X, parent=TWICE),
    _edit("overlap", _SR + _SR.replace("sequential", "static"), "edit_overlap"),
    _edit("cut off", f"<<<<<<< SEARCH\n{_LOOP}=======\n    for", "truncated"),
]  # fmt: skip
DIFFS = [
    _edit("diff", f"```diff\n{_DIFF}```"),
    _edit("diff without a fence", f"Apply this:\n\n{_DIFF}\nThat's all."),
    _edit("git diff", f"```diff\ndiff --git a/k.py b/k.py\nindex 1a..2b 100644\n{_DIFF}```"),
    _edit("no file names", f"```diff\n@@ -6,4 +6,4 @@\n{_HUNK}```"),
    _edit("no hunk header", f"```diff\n{_HUNK}```"),
    _edit("wrong line numbers", f"```diff\n{_FILES}@@ -600,2 +71,9 @@ def f():\n{_HUNK}```"),
    _edit("python tag", f"```python\n{_DIFF}```"),
    _edit("crlf diff", f"```diff\n{_DIFF}```".replace("\n", "\r\n")),
    _edit("trailing blanks in the diff", f"```diff\n{_DIFF.replace('hbm)', 'hbm)  ')}```"),
    _edit("no blank before context", f"```diff\n{_DIFF_NO_BLANK}```"),
    _edit("openai patch", f"*** Begin Patch\n*** Update File: k.py\n@@ def kernel\n{_HUNK}*** End Patch"),
    _edit("no newline mark", f"```diff\n{_DIFF}\\ No newline at end of file\n```"),
    _edit("two hunks", f"```diff\n{_DIFF}@@ -9 +9 @@\n-        nl.store(out[i], nl.add(tile, b))\n"
          "+        nl.store(out[i], nl.add(b, tile))\n     return out\n```", BOTH),
    _edit("new file", "```diff\n--- /dev/null\n+++ b/k.py\n@@ -0,0 +1,9 @@\n"
          + "".join(f"+{line}\n" for line in O.split("\n")[:-1]) + "```", parent=None),
    _edit("line number decides", "```diff\n@@ -13 +13 @@\n-    x = 1\n+    x = 3\n```", _TWO_X,
          parent=TWICE),
    _edit("line number is no help", "```diff\n@@ -2 +2 @@\n-    x = 1\n+    x = 3\n```",
          "edit_ambiguous", parent=TWICE),
    _edit("unknown context", f"```diff\n{_DIFF.replace('nl.load', 'load')}```", "edit_not_found"),
    _edit("hunks overlap", f"```diff\n{_DIFF}{_DIFF.replace('sequential', 'static')}```",
          "edit_overlap"),
    _edit("only additions", "```diff\n@@ -3 +3 @@\n+    x = 1\n```", "bad_diff"),
    _edit("nothing changed", "```diff\n@@ -3 +3 @@\n return out\n```", "bad_diff"),
    _edit("cut off diff", f"```diff\n{_DIFF[:-30]}", "truncated"),
]  # fmt: skip
DIFFS = [Case(**{**vars(case), "style": "diff"}) for case in DIFFS]

CORPUS = [*FENCED, *BARE, *OPEN, *USELESS, *SEARCH_REPLACE, *DIFFS]
