"""How long a flat trace of a million instructions takes to encode, and to decode and validate.

python benchmarks/trace_codec.py [--instructions N] [--json]
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from accelopt_simulator.dtypes import FLOAT32
from accelopt_simulator.trace.codec import decode, encode
from accelopt_simulator.trace.schema import COLUMNS, Engine, Space, TensorRole, Trace, VarKind

TENSORS = 64
ACCESSES = 40_000
PARTITIONS, COLUMNS_PER_TILE, WIDTH = 128, 16_384, 512


def flat_trace(instructions: int) -> Trace:
    """Tensor-tensor and activation instructions on SBUF tiles, as an unrolled kernel has them."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, 2, instructions)  # 0 = tensor_tensor, 1 = activation
    counts = np.where(chosen == 0, 3, 2)
    operands = int(counts.sum())
    ends = np.cumsum(counts)
    position = np.arange(operands) - np.repeat(ends - counts, counts)
    kind = np.repeat(chosen, counts)
    # Roles: dst, data1, data2 and dst, data.
    roles = np.where(kind == 0, np.array([0, 1, 2])[position], np.array([0, 3, 3])[position])
    starts = 1 + np.arange(ACCESSES)  # expression 0 is the partition axis
    columns = {
        "var_kind": [VarKind.AXIS, VarKind.AXIS],
        "var_a": [0, 1],
        "var_b": [0, 0],
        # Each access has an offset of its own along the free axis.
        "expr_const": np.concatenate(([0], np.arange(ACCESSES) % (COLUMNS_PER_TILE - WIDTH))),
        "expr_start": np.arange(ACCESSES + 2),
        "term_var": np.concatenate(([0], np.ones(ACCESSES))),
        "term_coef": np.ones(ACCESSES + 1),
        "pred_start": [0],
        "clause_start": [0],
        "tensor_space": np.full(TENSORS, Space.SBUF),
        "tensor_dtype": np.full(TENSORS, FLOAT32),
        "tensor_role": np.full(TENSORS, TensorRole.LOCAL),
        "tensor_init": np.zeros(TENSORS),
        "tensor_index": np.full(TENSORS, -1),
        "tensor_alias": np.full(TENSORS, -1),
        "tensor_scope": np.full(TENSORS, -1),
        "tensor_par_dim": np.zeros(TENSORS),
        "tensor_shape_start": np.arange(TENSORS + 1) * 2,
        "tensor_shape": np.tile([PARTITIONS, COLUMNS_PER_TILE], TENSORS),
        "access_tensor": rng.integers(0, TENSORS, ACCESSES),
        "access_grid_start": np.arange(ACCESSES + 1) * 2,
        "access_grid": np.tile([PARTITIONS, WIDTH], ACCESSES),
        "access_index_start": np.arange(ACCESSES + 1) * 2,
        "access_index": np.stack([np.zeros(ACCESSES), starts], axis=1).reshape(-1),
        "ins_op": chosen,
        "ins_engine": np.full(instructions, Engine.UNKNOWN),
        "ins_attr": chosen,
        "ins_pred": np.full(instructions, -1),
        "ins_operand_start": np.concatenate(([0], ends)),
        "operand_role": roles,
        "operand_kind": np.zeros(operands),
        "operand_ref": rng.integers(0, ACCESSES, operands),
        "tensor_line": np.ones(TENSORS),
        "ins_line": np.arange(instructions) % 1000,
    }
    return Trace(
        dialect="nki",
        entry="kernel",
        grid=(),
        ops=("tensor_tensor", "activation"),
        roles=("dst", "data1", "data2", "data"),
        attrs=({"op": "add"}, {"op": "exp"}),
        tensor_names=tuple(f"tile{t}" for t in range(TENSORS)),
        constants=(),
        columns={n: np.asarray(columns.get(n, []), dtype="<" + t) for n, t in COLUMNS.items()},
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instructions", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    trace = flat_trace(options.instructions)
    started = time.perf_counter()
    data = encode(trace)
    encoded = time.perf_counter()
    decoded = decode(data)
    done = time.perf_counter()
    figures = {
        "instructions": decoded.num_instructions,
        "operands": len(decoded.operand_ref),
        "accesses": len(decoded.access_tensor),
        "bytes": len(data),
        "encode_s": round(encoded - started, 4),
        "decode_validate_s": round(done - encoded, 4),
    }
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:20}{value:>14,}")


if __name__ == "__main__":
    main()
