import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import neuronxcc.nki.isa as nisa
from neuronxcc.nki import trace
from neuronxcc.nki.language import par_dim


@nki.jit
def kernel(v1, v2, v3, v4):
  import numpy as np
  import neuronxcc.nki as nki
  import neuronxcc.nki.language as nl
  import neuronxcc.nki.typing as nt
  import neuronxcc.nki.isa as nisa
  from neuronxcc.nki import trace
  from neuronxcc.nki.language import par_dim
  n0 = v1.shape[0]
  n1 = v1.shape[3]
  n2 = v2.shape[2] // 1024
  n3 = n1 * 128
  n4 = n3 // 512
  v5 = nl.ndarray((n0 * 4, 128, n3), dtype=np.float32, buffer=nl.shared_hbm, name='out')
  v6 = nl.ndarray((nl.par_dim(128), 1), dtype=np.float32, buffer=nl.sbuf, name='zero_bias')
  v7 = nl.shared_constant(np.identity(128, np.float32))
  v8 = nl.ndarray((nl.par_dim(128), 128), dtype=np.float32, buffer=nl.sbuf, name='identity')
  v9 = nl.ndarray((n2, n1, nl.par_dim(128), 1024), dtype=np.float32, buffer=nl.sbuf, name='gate_weight')
  v10 = nl.ndarray((n2, n0, 4, nl.par_dim(128), n3), dtype=np.float32, buffer=nl.sbuf, name='x_tile')
  v11 = nl.zeros((n2, n0, 4, n1, nl.par_dim(128), 128), dtype=np.float32, buffer=nl.psum, name='', lazy_initialization=True)
  v12 = nl.ndarray((n2, n0, nl.par_dim(128), n1, 512), dtype=np.float32, buffer=nl.sbuf, name='x_transposed')
  v13 = nl.zeros((n2, n0, 8, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.psum, name='', lazy_initialization=True)
  v14 = nl.ndarray((n2, 8, n0, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.sbuf, name='gate')
  v15 = nl.ndarray((n2, n1, nl.par_dim(128), 1024), dtype=np.float32, buffer=nl.sbuf, name='up_weight')
  v16 = nl.ndarray((n2, n0, 4, nl.par_dim(128), n3), dtype=np.float32, buffer=nl.sbuf, name='x_tile')
  v17 = nl.zeros((n2, n0, 4, n1, nl.par_dim(128), 128), dtype=np.float32, buffer=nl.psum, name='', lazy_initialization=True)
  v18 = nl.ndarray((n2, n0, nl.par_dim(128), n1, 512), dtype=np.float32, buffer=nl.sbuf, name='x_transposed')
  v19 = nl.zeros((n2, 8, n0, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.psum, name='', lazy_initialization=True)
  v20 = nl.ndarray((n2, 8, n0, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.sbuf, name='')
  v21 = nl.ndarray((n2, 8, n0, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.sbuf, name='')
  v22 = nl.ndarray((n2, 8, n0, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.sbuf, name='')
  v23 = nl.ndarray((n2, 8, n0, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.sbuf, name='')
  v24 = nl.ndarray((n2, 8, n0, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.sbuf, name='')
  v25 = nl.ndarray(shape=(n2, 8, n0, 128, 512), dtype=np.float32, buffer=nl.hbm, name='hidden_scratch')
  v26 = nl.ndarray((n2, 8, nl.par_dim(128), n3), dtype=np.float32, buffer=nl.sbuf, name='down_weight')
  v27 = nl.ndarray((n2, 8, n0, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.sbuf, name='hidden')
  v28 = nl.zeros((n0, 4, n4, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.psum, name='', lazy_initialization=True)
  v29 = nl.ndarray((n0, 4, nl.par_dim(128), n3), dtype=np.float32, buffer=nl.sbuf, name='y_tile')
  v6[nl.arange(128)[:, None], 0] = nisa.memset(shape=(128, 1), value=np.dtype(np.uint16).type(0), dtype=np.float32, mask=None)
  v8[nl.arange(128)[:, None], nl.arange(128)[None, :]] = nl.load(v7[nl.arange(128)[:, None], nl.arange(128)[None, :]], dtype=np.float32, mask=None)
  for i0 in nl.affine_range(n2):
    for i1 in nl.affine_range(n1):
      v9[i0, i1, nl.arange(128)[:, None], nl.arange(1024)[None, :]] = nl.load(v4[i1, nl.arange(128)[:, None], 1024 * i0 + nl.arange(1024)[None, :]], dtype=np.float32, mask=None)
      ' end loop i1 '
    for i2 in nl.affine_range(n0):
      for i3 in nl.affine_range(4):
        v10[i0, i2, i3, nl.arange(128)[:, None, None], 128 * nl.arange(n1)[None, :, None] + nl.arange(128)[None, None, :]] = nl.load(v1[i2, i3, nl.arange(128)[:, None, None], nl.arange(n1)[None, :, None], nl.arange(128)[None, None, :]], dtype=np.float32, mask=None)
        for i4 in nl.affine_range(n1):
          v11[i0, i2, i3, i4, nl.arange(128)[:, None], nl.arange(128)[None, :]] = nisa.nc_matmul(v10[i0, i2, i3, nl.arange(128)[:, None], 128 * i4 + nl.arange(128)[None, :]], v8[nl.arange(128)[:, None], nl.arange(128)[None, :]], is_stationary_onezero=False, is_moving_onezero=True, mask=None, is_transpose=True)
          v12[i0, i2, nl.arange(128)[:, None], i4, 128 * i3 + nl.arange(128)[None, :]] = nl.copy(v11[i0, i2, i3, i4, nl.arange(128)[:, None], nl.arange(128)[None, :]], dtype=np.float32, mask=None)
          ' end loop i4 '
        ' end loop i3 '
      for i5 in nl.affine_range(8):
        for i6 in nl.affine_range(n1):
          v13[i0, i2, i5, nl.arange(128)[:, None], nl.arange(512)[None, :]] += nisa.nc_matmul(v9[i0, i6, nl.arange(128)[:, None], 128 * i5 + nl.arange(128)[None, :]], v12[i0, i2, nl.arange(128)[:, None], i6, nl.arange(512)[None, :]], is_stationary_onezero=False, is_moving_onezero=False, mask=None, is_transpose=False)
          ' end loop i6 '
        v14[i0, i5, i2, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nl.copy(v13[i0, i2, i5, nl.arange(128)[:, None], nl.arange(512)[None, :]], dtype=np.float32, mask=None)
        ' end loop i5 '
      ' end loop i2 '
    ' end loop i0 '
  for i7 in nl.affine_range(n2):
    for i8 in nl.affine_range(n1):
      v15[i7, i8, nl.arange(128)[:, None], nl.arange(1024)[None, :]] = nl.load(v2[i8, nl.arange(128)[:, None], 1024 * i7 + nl.arange(1024)[None, :]], dtype=np.float32, mask=None)
      ' end loop i8 '
    for i9 in nl.affine_range(n0):
      for i10 in nl.affine_range(4):
        v16[i7, i9, i10, nl.arange(128)[:, None, None], 128 * nl.arange(n1)[None, :, None] + nl.arange(128)[None, None, :]] = nl.load(v1[i9, i10, nl.arange(128)[:, None, None], nl.arange(n1)[None, :, None], nl.arange(128)[None, None, :]], dtype=np.float32, mask=None)
        for i11 in nl.affine_range(n1):
          v17[i7, i9, i10, i11, nl.arange(128)[:, None], nl.arange(128)[None, :]] = nisa.nc_matmul(v16[i7, i9, i10, nl.arange(128)[:, None], 128 * i11 + nl.arange(128)[None, :]], v8[nl.arange(128)[:, None], nl.arange(128)[None, :]], is_stationary_onezero=False, is_moving_onezero=True, mask=None, is_transpose=True)
          v18[i7, i9, nl.arange(128)[:, None], i11, 128 * i10 + nl.arange(128)[None, :]] = nl.copy(v17[i7, i9, i10, i11, nl.arange(128)[:, None], nl.arange(128)[None, :]], dtype=np.float32, mask=None)
          ' end loop i11 '
        ' end loop i10 '
      for i12 in nl.affine_range(8):
        for i13 in nl.affine_range(n1):
          v19[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]] += nisa.nc_matmul(v15[i7, i13, nl.arange(128)[:, None], 128 * i12 + nl.arange(128)[None, :]], v18[i7, i9, nl.arange(128)[:, None], i13, nl.arange(512)[None, :]], is_stationary_onezero=False, is_moving_onezero=False, mask=None, is_transpose=False)
          ' end loop i13 '
        v20[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nisa.activation(op=nl.exp, data=v14[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]], bias=v6[nl.arange(128)[:, None], 0], scale=np.dtype(np.float32).type(-1.0), mask=None, dtype=np.float32)
        v21[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nisa.tensor_scalar(data=v20[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]], op0=nl.add, operand0=np.dtype(np.float32).type(1.0), reverse0=True, dtype=np.float32, mask=None, engine=nisa.unknown_engine)
        v22[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nisa.reciprocal(data=v21[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]], dtype=np.float32, mask=None)
        v23[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nl.multiply(v14[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]], v22[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]], dtype=np.float32, mask=None)
        v24[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nl.multiply(v23[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]], v19[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]], dtype=np.float32, mask=None)
        nl.store(v25[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]], value=v24[i7, i12, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]], mask=None)
        ' end loop i12 '
      ' end loop i9 '
    ' end loop i7 '
  for i14 in nl.affine_range(n2):
    for i15 in nl.affine_range(8):
      v26[i14, i15, nl.arange(128)[:, None], nl.arange(n3)[None, :]] = nl.load(v3[8 * i14 + i15, nl.arange(128)[:, None], nl.arange(n3)[None, :]], dtype=np.float32, mask=None)
      ' end loop i15 '
    ' end loop i14 '
  for i16 in nl.affine_range(n0):
    for i17 in nl.affine_range(n2):
      for i18 in nl.affine_range(8):
        v27[i17, i18, i16, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nl.load(v25[i17, i18, i16, nl.arange(128)[:, None], nl.arange(512)[None, :]], dtype=np.float32, mask=None)
        ' end loop i18 '
      ' end loop i17 '
    for i19 in nl.affine_range(4):
      for i20 in nl.affine_range(n4):
        for i21 in nl.affine_range(n2):
          for i22 in nl.affine_range(8):
            v28[i16, i19, i20, nl.arange(128)[:, None], nl.arange(512)[None, :]] += nisa.nc_matmul(v27[i21, i22, i16, nl.arange(128)[:, None], 128 * i19 + nl.arange(128)[None, :]], v26[i21, i22, nl.arange(128)[:, None], 512 * i20 + nl.arange(512)[None, :]], is_stationary_onezero=False, is_moving_onezero=False, mask=None, is_transpose=False)
            ' end loop i22 '
          ' end loop i21 '
        v29[i16, i19, nl.arange(128)[:, None], 512 * i20 + nl.arange(512)[None, :]] = nl.copy(v28[i16, i19, i20, nl.arange(128)[:, None], nl.arange(512)[None, :]], dtype=np.float32, mask=None)
        ' end loop i20 '
      nl.store(v5[4 * i16 + i19, nl.arange(128)[:, None], nl.arange(n3)[None, :]], value=v29[i16, i19, nl.arange(128)[:, None], nl.arange(n3)[None, :]], mask=None)
      ' end loop i19 '
    ' end loop i16 '
  return v5
