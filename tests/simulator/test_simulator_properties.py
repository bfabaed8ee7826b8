"""Random kernels agree with NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator_kernels import run_kernel

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
    from simulator_kernels import execute

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
