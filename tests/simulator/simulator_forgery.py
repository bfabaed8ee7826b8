"""Editing valid traces into what a patched front end might send."""

from __future__ import annotations

import dataclasses

import numpy as np
from simulator_kernels import traced

from accelopt_simulator.trace.codec import encode

SAMPLE = """
def kernel(x, w):
    out = nl.ndarray((4, 128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    ring = nl.ndarray((4, nl.par_dim(128), 64), dtype=nl.float32, buffer=nl.sbuf)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(64)[None, :]
    eye = nl.load(nl.shared_constant(np.eye(128, dtype=np.float32)))
    for i in nl.sequential_range(4):
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        t = nl.load(x[i, i_p, i_f], mask=i_p + 16 * i < 140)
        ring[i] = nisa.activation_reduce(nl.tanh, t, reduce_op=nl.add, reduce_res=total, scale=0.5)
        for j in nl.affine_range(i + 1):
            acc = nl.zeros((128, 64), nl.float32, buffer=nl.psum)
            acc += nisa.nc_matmul(eye, nl.load(w[j % 2]))
            if i == 2:
                ring[i] = nl.add(ring[i], acc)
            else:
                ring[i, i_p, i_f] = nl.multiply(acc, total, mask=i_f >= i_p)
        nl.store(out[i], nl.sum(ring[i].reshape((128, 64)), axis=1, keepdims=True)
                 if False else ring[i])
    return out
"""


def sample_arrays():
    return np.ones((4, 128, 64), np.float32), np.ones((2, 128, 64), np.float32)


def sample_trace():
    """A trace with nested loops, masks, conditions, reductions, a matmul and derived indices."""
    return traced(SAMPLE, *sample_arrays())


def edited(trace, **changes):
    """Bytes of a trace with some columns or fields replaced; nothing is checked."""
    columns = dict(trace.columns)
    fields = {}
    for name, value in changes.items():
        if name in columns:
            columns[name] = np.asarray(value, dtype=columns[name].dtype)
        else:
            fields[name] = value
    return encode(dataclasses.replace(trace, columns=columns, _hash=[], **fields))


def at(column, index, value):
    """A copy of a column with one entry changed."""
    result = column.copy()
    result[index] = value
    return result
