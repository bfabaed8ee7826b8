"""Random kernels agree with NumPy."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator_forgery import edited
from simulator_kernels import execute, rules, run_kernel, traced

from accelopt import KernelSource
from accelopt.evaluation import ALL_STAGES, EvaluationStatus
from accelopt.kernel import ArgumentSpec, KernelTask, Work
from accelopt_simulator.hardware import TRN1, TRN1_TIMING
from accelopt_simulator.judge import Judge
from accelopt_simulator.trace.codec import decode, encode, from_json, to_json, trace_hash
from accelopt_simulator.trace.schema import COLUMNS
from accelopt_simulator.trace.validate import validate

SETTINGS = settings(deadline=None, max_examples=60)
X = np.random.default_rng(3).standard_normal((4, 64, 48)).astype(np.float32)
small = st.integers(0, 3)


@given(
    rows=st.integers(1, 32), columns=st.integers(1, 12), row0=small, row1=small,
    column0=small, column1=st.integers(1, 3), trips=st.integers(1, 4),
)  # fmt: skip
@SETTINGS
def test_affine_indices_pick_what_numpy_picks(rows, columns, row0, row1, column0, column1, trips):
    text = f"""
    def kernel(x):
        out = nl.ndarray(({trips}, {rows}, {columns}), dtype=nl.float32, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange({rows})[:, None], nl.arange({columns})[None, :]
        for i in nl.affine_range({trips}):
            t = nl.load(x[i, {row0} * i + i_p + {row1}, {column1} * i_f + {column0} * i])
            nl.store(out[i, i_p, i_f], t)
        return out
    """
    p, f = np.arange(rows)[:, None], np.arange(columns)[None, :]
    wanted = np.stack([X[i, row0 * i + p + row1, column1 * f + column0 * i] for i in range(trips)])
    np.testing.assert_array_equal(run_kernel(text, X), wanted)


atoms = st.tuples(
    st.sampled_from([0, 1, -1, 2]),
    st.sampled_from([0, 1, -1, 3]),
    st.sampled_from([0, 1, -2]),
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    st.integers(-4, 40),
)


@given(first=atoms, second=atoms, third=atoms, joined=st.sampled_from("&|"), inverted=st.booleans())
@SETTINGS
def test_masks_hold_where_numpy_says(first, second, third, joined, inverted):
    def condition(atom):
        a, b, c, compare, limit = atom
        return f"({a} * i_p + {b} * i_f + {c} * i {compare} {limit})"

    mask = f"({condition(first)} & {condition(second)} {joined} {condition(third)})"
    mask = f"~{mask}" if inverted else mask
    text = f"""
    def kernel(x):
        out = nl.ndarray((3, 64, 9), dtype=nl.float32, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange(64)[:, None], nl.arange(9)[None, :]
        for i in nl.affine_range(3):
            y = nl.full((64, 9), -7.0, dtype=nl.float32, buffer=nl.sbuf)
            y[i_p, i_f] = nl.multiply(nl.load(x[i, i_p, i_f]), 2.0, mask={mask})
            nl.store(out[i], y)
        return out
    """
    wanted = np.full((3, 64, 9), np.float32(-7))
    i_p, i_f = np.arange(64)[:, None], np.arange(9)[None, :]
    for i in range(3):
        holds = np.broadcast_to(eval(mask, {"i_p": i_p, "i_f": i_f, "i": i}), (64, 9))
        wanted[i][holds] = 2 * X[i, :64, :9][holds]
    np.testing.assert_array_equal(run_kernel(text, X), wanted)


@given(st.data())
@SETTINGS
def test_elementwise_programs_agree_with_numpy(data):
    """Operators, in-place updates and assignments in any order, on a few names."""
    generator = np.random.default_rng(0)
    values = {n: generator.standard_normal((64, 8)).astype(np.float32) for n in "ab"}
    values["c"] = generator.standard_normal((64, 1)).astype(np.float32)
    arguments = {n: v.copy() for n, v in values.items()}
    lines = []
    names = st.sampled_from("abc")
    for _ in range(data.draw(st.integers(1, 8))):
        target, x, y = data.draw(names), data.draw(names), data.draw(names)
        op = data.draw(st.sampled_from("+-*"))
        form = data.draw(st.sampled_from(["bind", "fill", "place", "copy", "update", "part"]))
        wide = "c" in (x, y) and values[x].shape != values[y].shape
        shape = (64, 8) if wide or values[x].shape == (64, 8) else (64, 1)
        if form == "bind":
            lines.append(f"{target} = {x} {op} {y}")
        elif form == "fill":
            lines.append(f"{target}[...] = 0.5")
        elif form == "place" and values[target].shape == shape:
            lines.append(f"{target}[...] = {x} {op} {y}")
        elif form == "copy" and values[target].shape == values[x].shape:
            lines.append(f"{target}[...] = {x}")
        elif form == "update" and values[x].shape in (values[target].shape, (64, 1)):
            lines.append(f"{target} {op}= {x}")
        elif form == "part" and values[target].shape == values[x].shape == (64, 8):
            lines.append(f"{target}[:, 1:4] = {x}[:, 0:3] {op} {x}[:, 2:5]")
        else:
            continue
        exec(lines[-1], {}, values)
    body = "\n".join("        " + line for line in lines)
    shapes = {n: v.shape for n, v in values.items()}
    text = f"""
    def kernel(x, y, z):
        shapes = {list(shapes.values())}
        outs = [nl.ndarray(s, dtype=nl.float32, buffer=nl.shared_hbm) for s in shapes]
        a, b, c = nl.load(x), nl.load(y), nl.load(z)
{body}
        for out, tile in zip(outs, (a, b, c)):
            nl.store(out, tile)
        return outs
    """
    outputs = execute(text, *(arguments[n] for n in "abc")).outputs
    for name, found in zip("abc", outputs, strict=True):
        np.testing.assert_allclose(found, values[name], rtol=1e-5, atol=1e-5, err_msg=str(lines))


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=2), extra=st.integers(0, 2),
    hoisted=st.booleans(), sequential=st.booleans(),
)  # fmt: skip
@SETTINGS
def test_blocks_and_fresh_tiles_give_the_same(sizes, extra, hoisted, sequential):
    """Block dimensions declared outside all loops against tiles made in the innermost loop."""
    loops = [f"i{k}" for k in range(len(sizes))]
    kind = "sequential_range" if sequential else "affine_range"
    blocks = ", ".join(str(s) for s in sizes)
    declare = f"t = nl.ndarray(({blocks}, nl.par_dim(16), 4), dtype=nl.float32, buffer=nl.sbuf)"
    fresh = "t = nl.ndarray((16, 4), dtype=nl.float32, buffer=nl.sbuf)"
    index = "[" + ", ".join(loops) + "]" if hoisted else "[...]"
    lines = ["def kernel(x):"]
    lines.append(f"    out = nl.ndarray(({blocks}, 16, 4), dtype=nl.float32, buffer=nl.shared_hbm)")
    if hoisted:
        lines.append("    " + declare)
    for depth, (name, size) in enumerate(zip(loops, sizes, strict=True)):
        lines.append("    " * (depth + 1) + f"for {name} in nl.{kind}({size}):")
    pad = "    " * (len(sizes) + 1)
    if not hoisted:
        lines.append(pad + fresh)
    where = " + ".join(f"{k + 1} * {name}" for k, name in enumerate(loops))
    lines.append(pad + f"t{index} = nl.load(x[0, nl.ds({where}, 16), 0:4])")
    lines += [pad + f"t{index} = nl.add(t{index}, {k + 1}.0)" for k in range(extra)]
    lines.append(pad + f"nl.store(out[{', '.join(loops)}], t{index})")
    lines.append("    return out")
    found = run_kernel("\n".join(lines), X)
    for place in np.ndindex(*sizes):
        start = sum((k + 1) * i for k, i in enumerate(place))
        wanted = X[0, start : start + 16, :4] + sum(range(extra + 1))
        np.testing.assert_allclose(found[place], wanted, rtol=1e-6)


coefficients = st.lists(st.integers(0, 3), min_size=3, max_size=3)


@given(
    extents=st.tuples(st.integers(1, 32), st.integers(1, 5), st.integers(1, 4)),
    at=st.lists(st.tuples(coefficients, st.integers(0, 4)), min_size=3, max_size=3),
    trips=st.integers(1, 3), derived=st.sampled_from(["i", "(i % 2)", "(i // 2)", "2 - i"]),
)  # fmt: skip
@SETTINGS
def test_grids_of_three_axes_pick_what_numpy_picks(extents, at, trips, derived):
    """Any affine mix of a grid's axes in any dimension of an HBM tensor, and back on chip."""
    big = np.arange(13 * 110 * 60, dtype=np.float32).reshape(13, 110, 60)
    p, f, g = extents

    def index(dim):
        (a, b, c), const = at[dim]
        # The first dimension is short: it takes the last two axes only.
        own = f"{a} * i_p + " if dim == 1 else ""
        return f"{own}{b if dim else 0} * i_f + {c if dim else 1} * i_g + {const} + {derived}"

    subscript = ", ".join(index(dim) for dim in range(3))
    text = f"""
    def kernel(x):
        out = nl.ndarray(({trips}, {p}, {f * g}), dtype=nl.float32, buffer=nl.shared_hbm)
        i_p = nl.arange({p})[:, None, None]
        i_f, i_g = nl.arange({f})[None, :, None], nl.arange({g})[None, None, :]
        for i in nl.affine_range({trips}):
            t = nl.load(x[{subscript}])
            flat = nl.ndarray(({p}, {f * g}), dtype=nl.float32, buffer=nl.sbuf)
            flat[i_p, {g} * i_f + i_g] = nl.multiply(t, 2.0)
            nl.store(out[i], flat)
        return out
    """
    names = {"i_p": np.arange(p)[:, None, None], "i_f": np.arange(f)[None, :, None]}
    names["i_g"] = np.arange(g)[None, None, :]
    parts = [np.broadcast_arrays(*eval(f"({subscript},)", names | {"i": i})) for i in range(trips)]
    wanted = [np.broadcast_to(2 * big[tuple(q)], extents).reshape(p, f * g) for q in parts]
    np.testing.assert_array_equal(run_kernel(text, big), np.stack(wanted))


@given(
    mask=st.tuples(atoms, atoms), rows=st.integers(1, 64), columns=st.integers(1, 48),
    shift=st.integers(0, 40),
)  # fmt: skip
@SETTINGS
def test_masked_loads_and_stores_touch_what_numpy_says(mask, rows, columns, shift):
    """Masked-out elements are neither read, written nor bounds-checked."""
    conditions = [f"({a} * i_p + {b} * i_f {compare} {limit})" for a, b, _, compare, limit in mask]
    inside = f"(i_f < {48 - shift})"
    text = f"""
    def kernel(x):
        out = nl.ndarray(({rows}, {columns}), dtype=nl.float32, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange({rows})[:, None], nl.arange({columns})[None, :]
        t = nl.full(({rows}, {columns}), -1.0, dtype=nl.float32, buffer=nl.sbuf)
        nl.store(out[i_p, i_f], t)
        t[...] = nl.load(x[1, i_p, i_f + {shift}], mask={inside} & {conditions[0]})
        nl.store(out[i_p, i_f], t, mask={conditions[1]})
        return out
    """
    names = {"i_p": np.arange(rows)[:, None], "i_f": np.arange(columns)[None, :]}
    load, store = (
        np.broadcast_to(eval(condition, {}, names), (rows, columns))
        for condition in (f"{inside} & {conditions[0]}", conditions[1])
    )
    wanted = np.full((rows, columns), np.float32(-1))
    r, c = np.nonzero(load & store)
    wanted[r, c] = X[1, r, c + shift]
    np.testing.assert_array_equal(run_kernel(text, X), wanted)


statements = st.lists(
    st.sampled_from([
        "t = nl.exp(t)",
        "t += 1.0",
        "t[:, 0:4] = nl.copy(t[:, 4:8], dtype=nl.bfloat16)",
        "t[...] = nl.load(x[1, 0:32, 0:8], mask=nl.arange(8)[None, :] < 5)",
        "p += nisa.nc_matmul(t, t)",
        "for i in nl.sequential_range(3):\n            t[:, nl.ds(i, 4)] *= 2.0",
        "for i in nl.affine_range(2):\n            if i % 2 == 1:\n"
        "                nl.store(out[0, nl.ds(16 * i, 16)], t[0:16])",
        "nl.load(x[0, nl.copy(t[:, 0:1], dtype=nl.int32), nl.arange(8)[None, :]])",
        "nl.reciprocal(nl.sum(t, axis=1))",
        "t[...] = np.inf",
    ]),
    max_size=8,
)  # fmt: skip


@given(statements=statements, gridded=st.booleans())
@settings(deadline=None, max_examples=25)
def test_traces_survive_being_encoded(statements, gridded):
    """The binary and the JSON form of any kernel's trace give it back, byte for byte."""
    body = "".join(f"        {statement}\n" for statement in statements)
    text = f"""
    def kernel(x):
        out = nl.ndarray((2, 32, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.load(x[0, 0:32, 0:8])
        p = nl.zeros((8, 8), dtype=nl.float32, buffer=nl.psum)
{body}
        nl.store(out[{"nl.program_id(0)" if gridded else "1"}], t)
        return out
    """
    grid = (2,) if gridded else ()
    trace = traced(text, X, grid=grid)
    data = encode(trace)
    again, from_text = decode(data), from_json(to_json(trace))
    for other in (again, from_text):
        validate(other)
        assert encode(other) == data
        assert trace_hash(other) == trace_hash(trace)
    assert encode(traced(text, X, grid=grid)) == data


RUNTIME = """
def kernel(x, rows):
    out = nl.ndarray((2, 32, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    k = nl.program_id(0)
    idx = nl.load(rows)
    i_f = nl.arange(8)[None, :]
    t = nl.load(x[k, idx, i_f], mask=i_f < 6)
    t[:, 0:4] = nisa.tensor_copy_dynamic_src(t[nl.arange(32)[:, None], idx[0, 0] + i_f[:, None]])
    if k > 0:
        t[...] = nl.multiply(t, 2.0)
    nl.store(out[k], t)
    nisa.dma_copy(dst=out[k, idx, i_f], src=t, dst_rmw_op=np.add)
    return out
""".replace("i_f[:, None]", "nl.arange(4)[None, :]")


class _Any:
    """A task whose kernel may compute whatever it likes."""

    def inputs(self, seed):
        return [X, np.zeros((32, 1), np.int32)]

    def forward(self, inputs):
        return np.ones((2, 32, 8), np.float32)

    def kernel_inputs(self, inputs):
        return list(inputs)

    def natural_output(self, outputs, expected):
        return outputs[0]


TASK = KernelTask(
    name="test/any",
    title="any",
    reference=_Any(),
    reference_source="",
    baseline=KernelSource(text="def kernel(x, rows):\n    return x"),
    arguments=(ArgumentSpec(shape=X.shape), ArgumentSpec(shape=(32, 1), dtype="int32")),
    output_shape=(2, 32, 8),
    relative_l2_tolerance=1e-6,
    seeds=(0,),
    work=Work(hbm_bytes=1),
)


@cache
def runtime_trace():
    return traced(RUNTIME, X, np.zeros((32, 1), np.int32), grid=(2,))


def test_the_trace_that_is_corrupted_below_is_sound():
    assert rules(RUNTIME, X, np.zeros((32, 1), np.int32), grid=(2,)) == []


@given(data=st.data())
@settings(deadline=None, max_examples=100)
def test_a_corrupted_trace_with_run_time_indices_never_crashes_the_judge(data):
    trace = runtime_trace()
    name = data.draw(st.sampled_from(sorted(COLUMNS)))
    column = getattr(trace, name).copy()
    if column.size:
        where = data.draw(st.integers(0, column.size - 1))
        value = data.draw(st.sampled_from([-1, 0, 1, 2, 3, 5, 31, 32, 127, 2**31 - 1]))
        column[where] = np.array(value).astype(column.dtype)
    whole = bytearray(edited(trace, **{name: column}))
    if data.draw(st.booleans()):
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    verdict = Judge(TRN1, TRN1_TIMING).judge(TASK, bytes(whole), ALL_STAGES, TASK.seeds)
    assert isinstance(verdict.status, EvaluationStatus)
    assert all(d.rule != "internal_error" for d in verdict.diagnostics), verdict.diagnostics
