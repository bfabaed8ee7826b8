"""Writes `docs/nki-coverage.md`: what the simulator knows of the `neuronxcc.nki` dialect, by call.

    python docs/make_coverage.py            write the table
    python docs/make_coverage.py --check    fail when it is out of date

The names are those of the checklist of our reference of the dialect (SDK 2.26). Everything else is
looked up: whether a name resolves, which instructions a call becomes, and which tests hold it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "simulator"
TABLE = ROOT / "docs" / "nki-coverage.md"
sys.path.insert(0, str(TESTS))

import numpy as np  # noqa: E402
from call_faults import BODY, FAULTS  # noqa: E402
from corpus import KERNELS  # noqa: E402
from simulator_kernels import trace  # noqa: E402
from test_simulator_front_end import PAIRS  # noqa: E402

from accelopt_simulator.frontend.neuronxcc_nki.modules import modules  # noqa: E402
from accelopt_simulator.isa import OPS  # noqa: E402
from accelopt_simulator.latency.costs import RULES as COST_RULES  # noqa: E402
from accelopt_simulator.numerics.rules import RULES as NUMERIC_RULES  # noqa: E402


def _names(text: str) -> list[str]:
    return text.split()


NL = _names(
    """
    abs add affine_range all all_reduce arange arctan atomic_rmw bitwise_and bitwise_or
    bitwise_xor broadcast_to ceil copy cos device_print divide dropout ds empty_like equal erf
    erf_dx exp expand_dims finfo floor fmod full gather_flattened gelu gelu_apprx_sigmoid
    gelu_apprx_tanh gelu_dx gemm_grid gemm_stationary_grid greater greater_equal invert
    left_shift less less_equal load load_transpose2d log logical_and logical_not logical_or
    logical_xor loop_reduce matmul max maximum mean min minimum mish mod multiply ndarray
    negative not_equal num_programs ones power prod program_id program_ndim rand random_seed
    reciprocal relu right_shift rms_norm rsqrt sequential_range shared_constant
    shared_identity_matrix sigmoid sign silu silu_dx sin softmax softplus sqrt square
    static_cast static_range store subtract sum tan tanh transpose trunc var where zeros
    zeros_like
    """
)
NL_VALUES = _names(
    """
    bfloat16 bfp16 bool_ float16 float32 float8_e4m3 float8_e5m2 fp32 hbm int16 int32 int8 mgrid
    nc par_dim private_hbm psum sbuf shared_hbm spmd_dim tfloat32 tile_size uint16 uint32 uint8
    """
)
NISA = _names(
    """
    activation activation_reduce affine_select bn_aggr bn_stats builtin_custom_op dma_copy
    dma_transpose dropout get_nc_version iota local_gather max8 memset nc_find_index8
    nc_match_replace8 nc_matmul nc_stream_shuffle nc_transpose range_select reciprocal
    scalar_tensor_tensor select_reduce sequence_bounds tensor_copy tensor_copy_dynamic_dst
    tensor_copy_dynamic_src tensor_copy_predicated tensor_partition_reduce tensor_reduce
    tensor_scalar tensor_scalar_reduce tensor_tensor tensor_tensor_scan
    """
)
NISA_VALUES = _names(
    """
    dge_mode dma_engine engine fp32 gpsimd_engine nc_version oob_mode reduce_cmd scalar_engine
    tensor_engine unknown_engine vector_engine
    """
)
NKI = _names(
    """
    jit trace baremetal benchmark profile simulate_kernel tensor FrameworkKernel language isa
    compiler typing
    """
)
NCC = _names(
    """
    sbuf psum allocation_scope enable_stack_allocator force_auto_alloc multi_buffer no_reorder
    skip_middle_end_transformations
    """
)

# A statement of each call that the fault tests have none of, to see what it becomes.
SNIPPETS = {
    "nl.broadcast_to": "nl.broadcast_to(a[0:1, :], shape=(128, 512))",
    "nl.copy": "nl.copy(a)",
    "nl.empty_like": "nl.empty_like(a)",
    "nl.full": "nl.full((128, 4), 3, nl.float32)",
    "nl.ones": "nl.ones((128, 4), nl.float32)",
    "nl.zeros": "nl.zeros((128, 4), nl.float32)",
    "nl.zeros_like": "nl.zeros_like(a)",
    "nl.load": "nl.load(x[0:128])",
    "nl.store": "nl.store(out[0:128], a)",
    "nl.matmul": "nl.matmul(a[:, 0:128], a)",
    "nl.transpose": "nl.transpose(a[:, 0:128])",
    "nl.atomic_rmw": "nl.atomic_rmw(out[n[:, 0:1], i_f], a, np.add)",
    "nl.loop_reduce": "for i in nl.affine_range(2):\n        "
    "col[...] = nl.loop_reduce(nl.sum(a, axis=1), np.add, [i])",
    "nisa.activation": "nisa.activation(nl.exp, a)",
    "nisa.activation_reduce": "nisa.activation_reduce(nl.exp, a, reduce_op=np.add, reduce_res=col)",
    "nisa.bn_aggr": "nisa.bn_aggr(a[:, 0:6])",
    "nisa.bn_stats": "nisa.bn_stats(a)",
    "nisa.dma_copy": "nisa.dma_copy(dst=out[0:128], src=x[0:128])",
    "nisa.dma_transpose": "nisa.dma_transpose(x[0:128, 0:128])",
    "nisa.memset": "nisa.memset((128, 4), 0, nl.float32)",
    "nisa.nc_matmul": "nisa.nc_matmul(a[:, 0:128], a)",
    "nisa.nc_transpose": "nisa.nc_transpose(a[:, 0:128])",
    "nisa.range_select": "nisa.range_select(on_true_tile=a, comp_op0=np.less, comp_op1=np.less, "
    "bound0=col, bound1=col)",
    "nisa.reciprocal": "nisa.reciprocal(a)",
    "nisa.scalar_tensor_tensor": "nisa.scalar_tensor_tensor(data=a, op0=np.add, operand0=1, "
    "op1=np.add, operand1=a)",
    "nisa.tensor_copy": "nisa.tensor_copy(a)",
    "nisa.tensor_copy_dynamic_src": "nisa.tensor_copy_dynamic_src(a[i_p, n[0:1, 0:1] + "
    "nl.arange(4)[None, :]])",
    "nisa.tensor_copy_dynamic_dst": "nisa.tensor_copy_dynamic_dst(dst=a[i_p, n[0:1, 0:1] + "
    "nl.arange(1)[None, :]], src=col)",
    "nisa.tensor_reduce": "nisa.tensor_reduce(np.add, a, axis=1)",
    "nisa.tensor_scalar": "nisa.tensor_scalar(a, np.add, 1)",
    "nisa.tensor_scalar_reduce": "nisa.tensor_scalar_reduce(data=a, op0=np.add, operand0=1, "
    "reduce_op=np.add, reduce_res=col)",
    "nisa.tensor_tensor": "nisa.tensor_tensor(a, a, np.add)",
    "nisa.tensor_tensor_scan": "nisa.tensor_tensor_scan(a, a, 0, np.add, np.add)",
}

# Where the cycles of an instruction come from; see `latency/costs.py` and `latency/costs_calls.py`.
COST_SOURCES = dict.fromkeys(OPS, "doc") | {
    "dma_copy": "measured",
    "partition_broadcast": "measured",
    "reciprocal": "measured",
    "select_reduce": "prior",
    "rand": "prior",
    "tensor_partition_reduce": "prior",
    "sequence_bounds": "prior",
    "gather_flattened": "prior",
    "dma_transpose": "prior",
}
_ALU = "an ALU operator for want of documentation [prior]"
LIMITS = dict.fromkeys(("nl.ceil", "nl.floor", "nl.trunc", "nl.mod", "nl.fmod"), _ALU) | {
    "nl.all_reduce": "one program instance only: instances run one after the other",
    "nl.device_print": "prints nothing: a trace has no values",
    "nl.cos": "x from -3 pi / 2 to 3 pi / 2, by the sine's range",
    "nl.tan": "x from -pi to pi, by the sine's range",
    "nl.mean": "no mask",
    "nl.var": "a mask only on up to 512 elements per partition",
    "nl.rand": "the device's generator is not documented: ours is Philox",
    "nl.dropout": "the device's generator is not documented: ours is Philox",
    "nisa.dropout": "the device's generator is not documented: ours is Philox",
    "nisa.local_gather": "no mask",
    "nisa.range_select": "gen3",
    "nisa.nc_stream_shuffle": "compile-time shuffle masks",
    "nisa.tensor_scalar_reduce": "not with subtract",
    "nisa.builtin_custom_op": "undocumented: `unsupported_op`",
    "nisa.get_nc_version": "always gen2",
    "nki.simulate_kernel": "a fault: host code has no place in a kernel file",
}
X = np.zeros((256, 512), np.float32)


def _instructions(statement: str) -> Counter[str]:
    result = trace(BODY.replace("STATEMENT", statement), X)
    if result.trace is None:
        raise SystemExit(f"{statement!r} does not trace: {result.diagnostics}")
    return Counter(result.trace.ops[op] for op in result.trace.ins_op)


def _statement(call: str) -> str | None:
    if call in SNIPPETS:
        return SNIPPETS[call]
    for _, _, good in FAULTS:
        if good.startswith(f"{call}(") and "\n" not in good:
            return good
    return None


def _used_in(texts: dict[str, str], call: str) -> str:
    pattern = re.compile(rf"(?<![\w.]){re.escape(call)}\(")
    return next((name for name, text in texts.items() if pattern.search(text)), "")


def _refused_in(call: str) -> str:
    """The test with a statement of this very call that breaks a rule."""
    lists = (("call_faults", FAULTS), ("test_simulator_front_end", PAIRS))
    for name, pairs in lists:
        if any(bad.startswith(f"{call}(") for _, bad, _ in pairs):
            return name
    return "test_calls_faults" if call == "nisa.range_select" else "-"


def _resolves(space: Any, name: str) -> bool:
    try:
        getattr(space, name)
    except Exception:  # noqa: BLE001 - a call that is not modelled faults when it is looked up
        return False
    return True


def rows() -> list[dict[str, str]]:
    """One row per call."""
    spaces = modules()
    nothing = _instructions("pass")
    corpus = {call for kernel in KERNELS for call in kernel.calls}
    numeric = {p.stem: p.read_text() for p in sorted(TESTS.glob("test_*.py")) if "run_kernel"
               in p.read_text()}  # fmt: skip
    found = []
    for prefix, module, names in (("nl", "language", NL), ("nisa", "isa", NISA)):
        for name in names:
            call = f"{prefix}.{name}"
            done = _resolves(spaces[f"neuronxcc.nki.{module}"], name)
            statement = _statement(call) if done else None
            used = _instructions(statement) - nothing if statement else Counter()
            for op in used:
                if op not in NUMERIC_RULES or op not in COST_RULES:
                    raise SystemExit(f"{op} has no rule")
            by_test = _used_in(numeric, call)
            found.append(
                {
                    "call": f"`{call}`",
                    "implemented": "yes" if done else "no",
                    "instructions": ", ".join(
                        f"{n} x {op}" if n > 1 else op for op, n in used.items()
                    ) or "-",
                    "numbers": "corpus" if call in corpus else by_test or "-",
                    "checks": _refused_in(call),
                    "cost": ", ".join(sorted({COST_SOURCES[op] for op in used})) or "-",
                    "limits": LIMITS.get(call, ""),
                }
            )  # fmt: skip
    return found


def values() -> list[tuple[str, str, bool]]:
    """(module, name, whether it resolves) of everything that is not a call."""
    spaces = modules()
    listed = (
        ("nki", "neuronxcc.nki", NKI),
        ("nl", "neuronxcc.nki.language", NL_VALUES),
        ("nisa", "neuronxcc.nki.isa", NISA_VALUES),
        ("ncc", "neuronxcc.nki.compiler", NCC),
    )
    return [(p, name, _resolves(spaces[m], name)) for p, m, names in listed for name in names]


def table() -> str:
    """The whole document."""
    calls = rows()
    lines = [
        "# Coverage of the `neuronxcc.nki` dialect",
        "",
        "Made by `docs/make_coverage.py`; a test compares. *Numbers*: the test that compares its",
        "results with NumPy (`corpus` is `tests/simulator/corpus.py`). *Checks*: the test with a",
        "statement of the call that breaks a rule, next to one that does not. *Cost*: `doc` is a",
        "documented cycle formula, `measured` comes from published counters, `prior` is ours for",
        "want of either.",
        "",
        f"{sum(r['implemented'] == 'yes' for r in calls)} of {len(calls)} calls are implemented.",
        "",
        "| Call | Implemented | Instructions | Numbers | Checks | Cost | Limits |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += ["| " + " | ".join(row.values()) + " |" for row in calls]
    lines += ["", "Values and modules:", ""]
    for prefix in ("nki", "nl", "nisa", "ncc"):
        names = [f"`{n}`" if ok else f"`{n}` (missing)" for p, n, ok in values() if p == prefix]
        lines.append(f"* `{prefix}`: " + ", ".join(names))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table, or check it."""
    text = table()
    if "--check" in sys.argv:
        if TABLE.read_text() != text:
            raise SystemExit(f"{TABLE} is out of date: run python docs/make_coverage.py")
        return
    TABLE.write_text(text)


if __name__ == "__main__":
    main()
