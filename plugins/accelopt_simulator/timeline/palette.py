"""Colours of instruction classes: distinct for colour-blind readers, too."""

from __future__ import annotations

import numpy as np

from accelopt_simulator.latency.execution import Execution, Ints, Transfer

CLASSES = {
    "matmul": "#0072b2",
    "transpose, broadcast": "#56b4e9",
    "activation": "#e69f00",
    "elementwise": "#009e73",
    "reduction": "#cc79a7",
    "copy, fill": "#8c8c8c",
    "other": "#b3a000",
    "load": "#6a51a3",
    "store": "#d55e00",
    "spill": "#b00020",
}
LIGHT = frozenset({"transpose, broadcast", "activation", "reduction", "other"})
"""Classes that dark text is readable on."""

_OPS = {
    "nc_matmul": "matmul",
    "nc_transpose": "transpose, broadcast",
    "partition_broadcast": "transpose, broadcast",
    "nc_stream_shuffle": "transpose, broadcast",
    "activation": "activation",
    "tensor_tensor": "elementwise",
    "tensor_scalar": "elementwise",
    "scalar_tensor_tensor": "elementwise",
    "tensor_tensor_scan": "elementwise",
    "reciprocal": "elementwise",
    "affine_select": "elementwise",
    "dropout": "elementwise",
    "tensor_reduce": "reduction",
    "tensor_partition_reduce": "reduction",
    "bn_stats": "reduction",
    "bn_aggr": "reduction",
    "select_reduce": "reduction",
    "max8": "reduction",
    "tensor_copy": "copy, fill",
    "tensor_copy_dynamic": "copy, fill",
    "tensor_copy_predicated": "copy, fill",
    "local_gather": "copy, fill",
    "memset": "copy, fill",
    "iota": "copy, fill",
}
_MOVES = {
    Transfer.LOAD: "load",
    Transfer.STORE: "store",
    Transfer.SPILL_SAVE: "spill",
    Transfer.SPILL_RELOAD: "spill",
}
NAMES = tuple(CLASSES)


def classes_of(execution: Execution) -> Ints:
    """Index into `NAMES` of each instance's class."""
    by_op = np.array(
        [NAMES.index(_OPS.get(name, "other")) for name in execution.op_names], dtype=np.int64
    )
    result: Ints = by_op[execution.op]
    for transfer, name in _MOVES.items():
        result = np.where(execution.transfer == int(transfer), NAMES.index(name), result)
    return result
