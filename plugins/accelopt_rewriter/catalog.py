"""The table of rewrites."""

from __future__ import annotations

from accelopt_rewriter.rewrite import Rewrite
from accelopt_rewriter.rewrites.activation_chains import (
    AffineIntoActivation,
    SigmoidChain,
    SiluChain,
    SquareActivation,
)
from accelopt_rewriter.rewrites.engines import (
    DropCopy,
    ReciprocalToScalar,
    ScaleToScalar,
    ScaleToVector,
)
from accelopt_rewriter.rewrites.hoisting import HoistBroadcast, HoistLoad, HoistTranspose
from accelopt_rewriter.rewrites.scalar_fusion import (
    ChainTensorScalar,
    ReduceFusion,
    ScaleAdd,
    SelfScale,
)
from accelopt_rewriter.rewrites.widening import MergeSubtileLoop, WidenFreeTile

REWRITES: dict[str, Rewrite] = {
    rewrite.name: rewrite
    for rewrite in (
        SigmoidChain(),
        SiluChain(),
        SelfScale(),
        ReduceFusion(),
        SquareActivation(),
        AffineIntoActivation(),
        ScaleAdd(),
        ChainTensorScalar(),
        DropCopy(),
        HoistTranspose(),
        MergeSubtileLoop(),
        WidenFreeTile(),
        HoistLoad(),
        HoistBroadcast(),
        ReciprocalToScalar(),
        ScaleToScalar(),
        ScaleToVector(),
    )
}
"""Name -> rewrite, in the order of priority."""

GROUPS: dict[str, tuple[str, ...]] = {
    "fuse element-wise operations": (
        "sigmoid-chain",
        "silu-chain",
        "self-scale",
        "square-activation",
        "reduce-fusion",
        "scale-into-activation",
        "scale-add",
        "chain-tensor-scalar",
        "drop-copy",
    ),
    "work on larger tiles": ("merge-subtile-loop", "widen-free-tile"),
    "do repeated work once": ("hoist-transpose", "hoist-load", "hoist-broadcast"),
}
"""Rewrites that make sense together, in the order in which they are carried out."""
