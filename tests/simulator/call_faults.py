"""For every rule of a call a statement that breaks it, and one a single fault apart."""

from __future__ import annotations

from corpus import BINARY, COMPARE, UNARY

BODY = """
def kernel(x):
    out = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
    a = nl.load(x[0:128])
    col = nl.sum(a, axis=1)
    n = nisa.iota(i_p + i_f, dtype=nl.int32)
    u8 = nl.less(a, 0.0, dtype=nl.uint8)
    u16 = nisa.iota(i_p * 0 + nl.arange(4)[None, :], dtype=nl.uint16)
    u32 = nisa.iota(i_p * 0 + nl.arange(8)[None, :], dtype=nl.uint32)
    h = nl.copy(a, dtype=nl.bfloat16)
    nl.store(out[0:128], a)
    STATEMENT
    return out
"""

FAULTS = [
    # bit-wise operators and integers
    *(
        ("bitwise_dtype", f"nl.{name}(a, a)", f"nl.{name}(n, n)")
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
    ),
    ("bitwise_dtype", "nl.invert(a)", "nl.invert(n)"),
    ("bitwise_dtype", "~a", "~n"),
    ("bitwise_dtype", "a & a", "n & n"),
    ("bitwise_dtype", "nl.bitwise_and(n, 1.5)", "nl.bitwise_and(n, 1)"),
    (
        "bitwise_dtype",
        "nisa.tensor_scalar(a, np.bitwise_or, 1)",
        "nisa.tensor_scalar(n, np.bitwise_or, 1)",
    ),
    (
        "bitwise_dtype",
        "nisa.tensor_reduce(np.bitwise_or, a, axis=1)",
        "nisa.tensor_reduce(np.bitwise_or, n, axis=1)",
    ),
    (
        "mixed_operators",
        "nisa.tensor_scalar(n, np.bitwise_or, 1, op1=np.add, operand1=1)",
        "nisa.tensor_scalar(n, np.bitwise_or, 1, op1=np.bitwise_and, operand1=1)",
    ),
    ("unsupported_operator", "nisa.tensor_tensor(a, a, nl.mod)", "nl.mod(a, a)"),
    ("unsupported_operator", "nisa.tensor_scalar(a, nl.floor, 0)", "nl.floor(a)"),
    # statistics
    (
        "err_size_of_dimension_exceed_arch_limit",
        "nisa.bn_stats(nl.load(x.reshape((128, 1024)))[:, 0:513])",
        "nisa.bn_stats(nl.load(x.reshape((128, 1024)))[:, 0:512])",
    ),
    ("shape_mismatch", "nisa.bn_aggr(a[:, 0:5])", "nisa.bn_aggr(a[:, 0:6])"),
    # selections
    (
        "unsupported_dtype",
        "nisa.tensor_copy_predicated(src=a, dst=a, predicate=n)",
        "nisa.tensor_copy_predicated(src=a, dst=a, predicate=u8)",
    ),
    (
        "unsupported_dtype",
        "nisa.tensor_copy_predicated(src=a, dst=h, predicate=u8)",
        "nisa.tensor_copy_predicated(src=h, dst=h, predicate=u8)",
    ),
    (
        "shape_mismatch",
        "nisa.tensor_copy_predicated(src=a, dst=a, predicate=u8[:, 0:4])",
        "nisa.tensor_copy_predicated(src=a[:, 0:4], dst=a[:, 0:4], predicate=u8[:, 0:4])",
    ),
    (
        "unsupported_dtype",
        "nisa.select_reduce(dst=n, predicate=u8, on_true=n, on_false=0)",
        "nisa.select_reduce(dst=a, predicate=u8, on_true=a, on_false=0)",
    ),
    (
        "unsupported_operator",
        "nisa.select_reduce(dst=a, predicate=u8, on_true=a, on_false=0, reduce_op=np.add)",
        "nisa.select_reduce(dst=a, predicate=u8, on_true=a, on_false=0, reduce_op=np.max)",
    ),
    (
        "accumulator_not_reset",
        "nisa.select_reduce(dst=a, predicate=u8, on_true=a, on_false=0, reduce_cmd=2)",
        "nisa.select_reduce(dst=a, predicate=u8, on_true=a, on_false=0, reduce_cmd=3)",
    ),
    (
        "accumulator_not_reset",
        "nisa.activation(nl.exp, a, reduce_op=np.add, reduce_cmd=nisa.reduce_cmd.reduce)",
        "nisa.activation(nl.exp, a, reduce_op=np.add, reduce_cmd=nisa.reduce_cmd.reset)",
    ),
    (
        "err_num_partition_mismatch",
        "nisa.activation(nl.exp, a, reduce_op=np.add, reduce_cmd=1)\n    "
        "nisa.activation(nl.exp, a[0:64], reduce_op=np.add, reduce_cmd=2)",
        "nisa.activation(nl.exp, a, reduce_op=np.add, reduce_cmd=1)\n    "
        "nisa.activation(nl.exp, a, reduce_op=np.add, reduce_cmd=2)",
    ),
    (
        "err_unsupported_expression_in_mask",
        "nisa.affine_select((i_f < 3) & (i_p < 3), a, 0.0)",
        "nisa.affine_select(i_f < 3, a, 0.0)",
    ),
    (
        "unsupported_dtype",
        "nisa.affine_select(i_f < 3, n, 0.0)",
        "nisa.affine_select(i_f < 3, a, 0)",
    ),
    (
        "bad_fill_value",
        "nisa.affine_select(i_f < 3, a, col)",
        "nisa.affine_select(i_f < 3, a, 1.0)",
    ),
    (
        "mask_shape_mismatch",
        "nisa.affine_select(i_f < 3, a[:, 0:4], 0.0)",
        "nisa.affine_select(i_f < 3, a, 0.0)",
    ),
    ("operand_not_a_tile", "nl.where(i_f < 3, a, a)", "nl.where(u8, a, a)"),
    ("shape_mismatch", "nl.where(u8[:, 0:4], a, a)", "nl.where(u8[:, 0:1], a, a)"),
    (
        "bad_shuffle_mask",
        "nisa.nc_stream_shuffle(a, a, [0] * 31)",
        "nisa.nc_stream_shuffle(a, a, [0] * 32)",
    ),
    (
        "bad_shuffle_mask",
        "nisa.nc_stream_shuffle(a, a, [32] * 32)",
        "nisa.nc_stream_shuffle(a, a, [31] * 32)",
    ),
    (
        "bad_shuffle_mask",
        "nisa.nc_stream_shuffle(a[0:1], a[0:32], [1] * 32)",
        "nisa.nc_stream_shuffle(a[0:2], a[0:32], [1] * 32)",
    ),
    # searches
    (
        "err_size_of_dimension_exceed_arch_limit",
        "nisa.max8(src=a[:, 0:7])",
        "nisa.max8(src=a[:, 0:8])",
    ),
    (
        "shape_mismatch",
        "nisa.nc_find_index8(data=a, vals=a[:, 0:7])",
        "nisa.nc_find_index8(data=a, vals=a[:, 0:8])",
    ),
    (
        "unsupported_dtype",
        "nisa.nc_find_index8(data=a, vals=a[:, 0:8], dtype=nl.int32)",
        "nisa.nc_find_index8(data=a, vals=a[:, 0:8], dtype=nl.uint16)",
    ),
    (
        "unsupported_dtype",
        "nisa.nc_match_replace8(data=a, vals=a[:, 0:8], imm=0, dst_idx=a[:, 8:16])",
        "nisa.nc_match_replace8(data=a, vals=a[:, 0:8], imm=0, dst_idx=u32)",
    ),
    (
        "bad_fill_value",
        "nisa.nc_match_replace8(data=a, vals=a[:, 0:8], imm=col)",
        "nisa.nc_match_replace8(data=a, vals=a[:, 0:8], imm=1)",
    ),
    # GpSimd and DMA
    (
        "err_1d_arange_not_supported",
        "nisa.iota(nl.arange(9), nl.int32)",
        "nisa.iota(i_p, nl.int32)",
    ),
    ("unsupported_op", "nisa.iota(i_p * 100000, nl.int32)", "nisa.iota(i_p * 10000, nl.int32)"),
    (
        "unsupported_operator",
        "nisa.tensor_partition_reduce(np.multiply, a)",
        "nisa.tensor_partition_reduce(np.add, a)",
    ),
    (
        "shape_mismatch",
        "nisa.sequence_bounds(segment_ids=n)",
        "nisa.sequence_bounds(segment_ids=n[0:1, :])",
    ),
    (
        "unsupported_dtype",
        "nisa.sequence_bounds(segment_ids=h[0:1, :], dtype=nl.int32)",
        "nisa.sequence_bounds(segment_ids=a[0:1, :])",
    ),
    ("unsupported_dtype", "nisa.local_gather(a, n[:, 0:4])", "nisa.local_gather(a, u16)"),
    ("bad_operands", "nisa.local_gather(a, u16, 3)", "nisa.local_gather(a, u16, 2)"),
    (
        "bad_operands",
        "nisa.local_gather(a, u16, 1, 65)",
        "nisa.local_gather(a, u16, 1, 63)",
    ),
    (
        "err_num_partition_mismatch",
        "nisa.local_gather(a[0:64], u16)",
        "nisa.local_gather(a[0:64], u16[0:64])",
    ),
    ("unsupported_dtype", "nl.gather_flattened(a, n)", "nl.gather_flattened(a, u32)"),
    (
        "err_num_partition_mismatch",
        "nl.gather_flattened(a[0:64], u32)",
        "nl.gather_flattened(a, u32)",
    ),
    (
        "bad_transpose_axes",
        "nisa.dma_transpose(x[0:128], axes=(0, 1))",
        "nisa.dma_transpose(x[0:128, 0:128], axes=(1, 0))",
    ),
    (
        "err_num_partition_exceed_arch_limit",
        "nl.load_transpose2d(x)",
        "nl.load_transpose2d(x[:, 0:128])",
    ),
    ("err_unsupported_memory", "nl.load_transpose2d(a)", "nl.load_transpose2d(x[:, 0:9])"),
    # random draws
    ("bad_random_seed", "nl.random_seed(a)", "nl.random_seed(n[0:1, 0:1])"),
    ("unsupported_dtype", "nl.rand((128, 4), nl.int32)", "nl.rand((128, 4))"),
    ("insufficient_rank", "nl.rand((128,))", "nl.rand((128, 1))"),
    ("operand_not_a_column", "nl.dropout(a, a)", "nl.dropout(a, col)"),
    ("operand_not_a_column", "nisa.dropout(a, prob=a)", "nisa.dropout(a, prob=col)"),
    # matmul
    (
        "unsupported_generation",
        "nisa.nc_matmul(h[:, 0:32], h, tile_position=(0, 0), tile_size=(128, 32))",
        "nisa.nc_matmul(h[:, 0:32], h, tile_position=(0, 0), tile_size=(128, 64))",
    ),
    (
        "pe_tile",
        "nisa.nc_matmul(h[:, 0:64], h, tile_position=(0, 16), tile_size=(128, 64))",
        "nisa.nc_matmul(h[:, 0:64], h, tile_position=(0, 32), tile_size=(128, 64))",
    ),
    (
        "pe_tile",
        "nisa.nc_matmul(h[:, 0:128], h, tile_position=(0, 0), tile_size=(128, 64))",
        "nisa.nc_matmul(h[:, 0:64], h, tile_position=(0, 0), tile_size=(128, 64))",
    ),
    (
        "pe_tile",
        "nisa.nc_matmul(h[:, 0:64], h, tile_size=(128, 64))",
        "nisa.nc_matmul(h[:, 0:64], h, tile_position=(0, 64), tile_size=(128, 64))",
    ),
    (
        "mask_shape_mismatch",
        "nisa.nc_matmul(h[:, 0:64], h, mask=nl.arange(100)[None, :] < 3)",
        "nisa.nc_matmul(h[:, 0:64], h, mask=nl.arange(64)[None, :] < 3)",
    ),
    # the rest
    ("bad_reduction_axis", "nl.softmax(a, axis=0)", "nl.softmax(a, axis=1)"),
    ("bad_reduction_axis", "nl.var(a, axis=0)", "nl.var(a, axis=1)"),
    ("bad_reduction_axis", "nl.all(a, axis=0)", "nl.all(a, axis=1)"),
    ("bad_reduction_axis", "nl.rms_norm(a, a, 0, 512)", "nl.rms_norm(a, a, 1, 512)"),
    *(
        ("bad_reduction_axis", f"nl.{name}(a, axis=0)", f"nl.{name}(a, axis=1)")
        for name in ("sum", "max", "min", "prod", "mean")
    ),
    ("operand_not_a_number", "nl.rms_norm(a, a, 1, n=col)", "nl.rms_norm(a, a, 1, n=512)"),
    ("operand_not_a_tile", "nl.device_print('a', 3)", "nl.device_print('a', a)"),
    ("operand_not_a_tile", "nl.logical_not(3)", "nl.logical_not(a)"),
    ("atomic_rmw_without_index", "nl.atomic_rmw(out[0:128], a, np.add)", "nl.store(out[0:128], a)"),
    ("unsupported_operator", "nl.atomic_rmw(out, a, np.multiply)", "nl.store(out[0:128], a)"),
    ("bad_spmd_grid", "nl.spmd_dim(2, 2)", "nl.spmd_dim(2, nl.nc(2))"),
    ("bad_spmd_grid", "nl.nc(0)", "nl.nc(1)"),
    ("host_call", "nki.simulate_kernel(kernel, x)", "nki.FrameworkKernel"),
    (
        "shape_mismatch",
        "nl.broadcast_to(a, shape=(128, 4))",
        "nl.broadcast_to(col, shape=(128, 4))",
    ),
    (
        "matmul_dtype",
        "nl.matmul(n[:, 0:64], a, transpose_x=True)",
        "nl.matmul(h[:, 0:64], a, transpose_x=True)",
    ),
    (
        "err_size_of_dimension_exceed_arch_limit",
        "nisa.nc_transpose(a[0:32, 0:64], engine=nisa.vector_engine)",
        "nisa.nc_transpose(a[0:32, 0:32], engine=nisa.vector_engine)",
    ),
    ("operand_not_a_tile", "nisa.reciprocal(3)", "nisa.reciprocal(a)"),
    ("operand_not_a_tile", "nisa.tensor_copy(3)", "nisa.tensor_copy(a)"),
    (
        "unsupported_operator",
        "nisa.scalar_tensor_tensor(data=n, op0=np.bitwise_and, operand0=1, op1=np.add, operand1=n)",
        "nisa.scalar_tensor_tensor(data=n, op0=np.add, operand0=1, op1=np.add, operand1=n)",
    ),
    (
        "unsupported_operator",
        "nisa.tensor_scalar_reduce(data=a, op0=np.add, operand0=1, reduce_op=np.subtract, "
        "reduce_res=col)",
        "nisa.tensor_scalar_reduce(data=a, op0=np.add, operand0=1, reduce_op=np.add, "
        "reduce_res=col)",
    ),
    (
        "unsupported_operator",
        "nisa.tensor_tensor_scan(n, n, 0, np.bitwise_and, np.add)",
        "nisa.tensor_tensor_scan(n, n, 0, np.multiply, np.add)",
    ),
    (
        "unsupported_operator",
        "nl.loop_reduce(a, np.subtract, [])",
        "nl.loop_reduce(a, np.add, [])",
    ),
    ("insufficient_rank", "nl.ones((128,), nl.float32)", "nl.ones((128, 1), nl.float32)"),
    ("bad_buffer", "nl.zeros_like(a, buffer=3)", "nl.zeros_like(a, buffer=nl.sbuf)"),
    *(("operand_not_a_tile", f"nl.{name}(3)", f"nl.{name}(a)") for name in UNARY),
    *(("operand_not_a_tile", f"nl.{name}(1, 2)", f"nl.{name}(a, 2)") for name in BINARY),
    *(("operand_not_a_tile", f"nl.{name}(1, 2)", f"nl.{name}(a, a)") for name in COMPARE),
]
