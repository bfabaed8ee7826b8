import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, cos, sin):
    D, L = x.shape
    HALF = D // 2
    STEP = 512
    assert D <= nl.tile_size.pmax
    assert cos.shape[0] == HALF and cos.shape[1] == L
    assert sin.shape[0] == HALF and sin.shape[1] == L

    out = nl.ndarray((D, L), dtype=x.dtype, buffer=nl.shared_hbm)

    i_all = nl.arange(D)[:, None]
    i_first = nl.arange(HALF)[:, None]
    i_second = HALF + nl.arange(HALF)[:, None]
    i_col = nl.arange(STEP)[None, :]

    for start in range(0, L, STEP):
        x_tile = nl.ndarray((D, STEP), dtype=x.dtype, buffer=nl.sbuf)
        x_tile[i_all, i_col] = nl.load(x[i_all, start + i_col])

        # Room for both coefficients in one tile; the names move on to separate tiles.
        packed = nl.ndarray((D, STEP), dtype=x.dtype, buffer=nl.sbuf)
        cos_tile = packed[i_first, i_col]
        sin_tile = packed[i_second, i_col]
        cos_tile = nl.load(cos[i_first, start + i_col])
        sin_tile = nl.load(sin[i_first, start + i_col])

        y_tile = nl.ndarray((D, STEP), dtype=x.dtype, buffer=nl.sbuf)
        first = x_tile[i_first, i_col]
        # Both operands of an instruction have to start at the same partition.
        second = nl.copy(x_tile[i_second, i_col])

        by_cos = nl.ndarray((D, STEP), dtype=x.dtype, buffer=nl.sbuf)
        by_sin = nl.ndarray((D, STEP), dtype=x.dtype, buffer=nl.sbuf)
        first_cos = by_cos[i_first, i_col]
        second_cos = by_cos[i_second, i_col]
        first_sin = by_sin[i_first, i_col]
        second_sin = by_sin[i_second, i_col]
        first_cos = nisa.tensor_tensor(first, cos_tile, op=nl.multiply)
        second_cos = nisa.tensor_tensor(second, cos_tile, op=nl.multiply)
        first_sin = nisa.tensor_tensor(first, sin_tile, op=nl.multiply)
        second_sin = nisa.tensor_tensor(second, sin_tile, op=nl.multiply)

        y_tile[i_first, i_col] = nisa.tensor_tensor(first_cos, second_sin, op=nl.subtract)
        y_tile[i_second, i_col] = nisa.tensor_tensor(second_cos, first_sin, op=nl.add)

        nl.store(out[i_all, start + i_col], value=y_tile[i_all, i_col])

    return out
