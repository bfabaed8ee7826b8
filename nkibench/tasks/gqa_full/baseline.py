import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import neuronxcc.nki.isa as nisa
from neuronxcc.nki import trace
from neuronxcc.nki.language import par_dim


@nki.jit
def kernel(v1, v2, v3):
  import numpy as np
  import neuronxcc.nki as nki
  import neuronxcc.nki.language as nl
  import neuronxcc.nki.typing as nt
  import neuronxcc.nki.isa as nisa
  from neuronxcc.nki import trace
  from neuronxcc.nki.language import par_dim
  n0 = v1.shape[0]
  n1 = v1.shape[2] // 2
  n2 = v1.shape[3]
  n3 = v2.shape[1] // 2
  n4 = v2.shape[4]
  n5 = n4 // 2
  n6 = n1 // n5
  n7 = np.float32(1.0) / np.sqrt(np.float32(n2))
  v4 = nl.ndarray((1, n4, n6, n0, 128, n2), dtype=np.float32, buffer=nl.shared_hbm, name='out')
  v5 = nl.shared_constant(np.identity(128, np.float32))
  v6 = nl.ndarray((nl.par_dim(128), 128), dtype=np.float32, buffer=nl.sbuf, name='identity')
  v7 = nl.ndarray((n0, 2, nl.par_dim(128), n1 * n2), dtype=np.float32, buffer=nl.sbuf, name='q_tile')
  v8 = nl.zeros((n0, 2, n1, nl.par_dim(n2), 128), dtype=np.float32, buffer=nl.psum, name='', lazy_initialization=True)
  v9 = nl.ndarray((2, n0, nl.par_dim(n2), n1, 128), dtype=np.float32, buffer=nl.sbuf, name='q_transposed')
  v10 = nl.ndarray((2, n3, 4, nl.par_dim(128), n4 * n2), dtype=np.float32, buffer=nl.sbuf, name='k_tile')
  v11 = nl.zeros((2, n3, 4, n4, nl.par_dim(n2), 128), dtype=np.float32, buffer=nl.psum, name='', lazy_initialization=True)
  v12 = nl.ndarray((2, n3, nl.par_dim(n2), n4, 512), dtype=np.float32, buffer=nl.sbuf, name='k_transposed')
  v13 = nl.zeros((n0, 2, n5, n6, 2, n3, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.psum, name='', lazy_initialization=True)
  v14 = nl.ndarray((n0, 2, n5, n6, 2, n3, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.sbuf, name='scores')
  v15 = nl.ndarray((2, n5, n6, n0, nl.par_dim(128), 1), dtype=np.float32, buffer=nl.sbuf, name='row_max')
  v16 = nl.ndarray((n3 * 2, 4, nl.par_dim(128), n4 * n2), dtype=np.float32, buffer=nl.sbuf, name='v_tile')
  v17 = nl.ndarray((n6, 2, n5, n0, nl.par_dim(128), 1), dtype=np.float32, buffer=nl.sbuf, name='')
  v18 = nl.ndarray((n0, 2, n5, n6, 2, n3, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.sbuf, name='exponentials')
  v19 = nl.ndarray((2, n5, n6, n0, nl.par_dim(128), 1), dtype=np.float32, buffer=nl.sbuf, name='row_sum')
  v20 = nl.ndarray((2, n5, n6, n0, nl.par_dim(128), 1), dtype=np.float32, buffer=nl.sbuf, name='')
  v21 = nl.ndarray((n0, 2, n5, n6, n3 * 2, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.sbuf, name='')
  v22 = nl.zeros((n6, 2, n5, n0, 2, n3, 4, nl.par_dim(128), 128), dtype=np.float32, buffer=nl.psum, name='', lazy_initialization=True)
  v23 = nl.ndarray((n3 * 2, 4, 2, n5, n6, n0, nl.par_dim(128), 128), dtype=np.float32, buffer=nl.sbuf, name='')
  v24 = nl.zeros((n6, 2, n5, n0, nl.par_dim(128), n2), dtype=np.float32, buffer=nl.psum, name='', lazy_initialization=True)
  v25 = nl.ndarray((2, n5, n6, n0, nl.par_dim(128), n2), dtype=np.float32, buffer=nl.sbuf, name='out_tile')
  v26 = nl.ndarray((2, 2, n5, n3, n6, n0, nl.par_dim(128), 1), dtype=np.float32, buffer=nl.sbuf, name='')
  v27 = nl.ndarray((n6, 2, n5, n0, 2, n3, nl.par_dim(128), 1), dtype=np.float32, buffer=nl.sbuf, name='')
  v6[nl.arange(128)[:, None], nl.arange(128)[None, :]] = nl.load(v5[nl.arange(128)[:, None], nl.arange(128)[None, :]], dtype=np.float32, mask=None)
  for i0 in nl.affine_range(n0):
    for i1 in nl.affine_range(2):
      v7[i0, i1, nl.arange(128)[:, None, None], n2 * nl.arange(n1)[None, :, None] + nl.arange(n2)[None, None, :]] = nl.load(v1[i0, nl.arange(128)[:, None, None], n1 * i1 + nl.arange(n1)[None, :, None], nl.arange(n2)[None, None, :]], dtype=np.float32, mask=None)
      for i2 in nl.affine_range(n1):
        v8[i0, i1, i2, nl.arange(n2)[:, None], nl.arange(128)[None, :]] = nisa.nc_matmul(v7[i0, i1, nl.arange(128)[:, None], n2 * i2 + nl.arange(n2)[None, :]], v6[nl.arange(128)[:, None], nl.arange(128)[None, :]], is_stationary_onezero=False, is_moving_onezero=True, mask=None, is_transpose=True)
        v9[i1, i0, nl.arange(n2)[:, None], i2, nl.arange(128)[None, :]] = nl.copy(v8[i0, i1, i2, nl.arange(n2)[:, None], nl.arange(128)[None, :]], dtype=np.float32, mask=None)
        ' end loop i2 '
      ' end loop i1 '
    ' end loop i0 '
  for i3 in nl.affine_range(2):
    for i4 in nl.affine_range(n3):
      for i5 in nl.affine_range(4):
        v10[i3, i4, i5, nl.arange(128)[:, None, None], n2 * nl.arange(n4)[None, :, None] + nl.arange(n2)[None, None, :]] = nl.load(v2[0, n3 * i3 + i4, i5, nl.arange(128)[:, None, None], nl.arange(n4)[None, :, None], nl.arange(n2)[None, None, :]], dtype=np.float32, mask=None)
        for i6 in nl.affine_range(n4):
          v11[i3, i4, i5, i6, nl.arange(n2)[:, None], nl.arange(128)[None, :]] = nisa.nc_matmul(v10[i3, i4, i5, nl.arange(128)[:, None], n2 * i6 + nl.arange(n2)[None, :]], v6[nl.arange(128)[:, None], nl.arange(128)[None, :]], is_stationary_onezero=False, is_moving_onezero=True, mask=None, is_transpose=True)
          v12[i3, i4, nl.arange(n2)[:, None], i6, 128 * i5 + nl.arange(128)[None, :]] = nl.copy(v11[i3, i4, i5, i6, nl.arange(n2)[:, None], nl.arange(128)[None, :]], dtype=np.float32, mask=None)
          ' end loop i6 '
        ' end loop i5 '
      ' end loop i4 '
    for i7 in nl.affine_range(2):
      for i8 in nl.affine_range(n5):
        for i9 in nl.affine_range(n3):
          for i10 in nl.affine_range(n6):
            for i11 in nl.affine_range(n0):
              v13[i11, i7, i8, i10, i3, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nisa.nc_matmul(v9[i7, i11, nl.arange(n2)[:, None], n6 * i8 + i10, nl.arange(128)[None, :]], v12[i3, i9, nl.arange(n2)[:, None], n5 * i7 + i8, nl.arange(512)[None, :]], is_stationary_onezero=False, is_moving_onezero=False, mask=None, is_transpose=False)
              v14[i11, i7, i8, i10, i3, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nisa.tensor_scalar(data=v13[i11, i7, i8, i10, i3, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]], op0=nl.multiply, operand0=np.dtype(np.float32).type(n7), reverse0=False, dtype=np.float32, mask=None, engine=nisa.unknown_engine)
              v26[i3, i7, i8, i9, i10, i11, nl.arange(128)[:, None], 0] = nisa.tensor_reduce(nl.max, data=v14[i11, i7, i8, i10, i3, i9, nl.arange(128)[:, None], nl.arange(512)[None, :]], axis=[1], negate=False, dtype=np.float32, mask=None)
              v15[i7, i8, i10, i11, nl.arange(128)[:, None], 0] = nl.loop_reduce(v26[i3, i7, i8, i9, i10, i11, nl.arange(128)[:, None], 0], op=np.max, loop_indices=[i3, i9], dtype=np.float32, mask=None)
              ' end loop i11 '
            ' end loop i10 '
          ' end loop i9 '
        ' end loop i8 '
      ' end loop i7 '
    ' end loop i3 '
  for i12 in nl.affine_range(n3 * 2):
    for i13 in nl.affine_range(4):
      v16[i12, i13, nl.arange(128)[:, None], nl.arange(n4 * n2)[None, :]] = nl.load(v3[0, 4 * i12 + i13, nl.arange(128)[:, None], nl.arange(n4 * n2)[None, :]], dtype=np.float32, mask=None)
      ' end loop i13 '
    ' end loop i12 '
  for i14 in nl.affine_range(n6):
    for i15 in nl.affine_range(2):
      for i16 in nl.affine_range(n5):
        for i17 in nl.affine_range(n0):
          v17[i14, i15, i16, i17, nl.arange(128)[:, None], 0] = nisa.tensor_scalar(data=v15[i15, i16, i14, i17, nl.arange(128)[:, None], 0], op0=nl.maximum, operand0=np.dtype(np.float32).type(-3.4028235e+38), reverse0=False, op1=nl.multiply, operand1=np.dtype(np.float32).type(-1.0), reverse1=False, dtype=np.float32, mask=None, engine=nisa.unknown_engine)
          for i18 in nl.affine_range(2):
            for i19 in nl.affine_range(n3):
              v18[i17, i15, i16, i14, i18, i19, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nisa.activation(op=nl.exp, data=v14[i17, i15, i16, i14, i18, i19, nl.arange(128)[:, None], nl.arange(512)[None, :]], bias=v17[i14, i15, i16, i17, nl.arange(128)[:, None], 0], scale=np.dtype(np.float32).type(1.0), mask=None, dtype=np.float32)
              v27[i14, i15, i16, i17, i18, i19, nl.arange(128)[:, None], 0] = nisa.tensor_reduce(nl.add, data=v18[i17, i15, i16, i14, i18, i19, nl.arange(128)[:, None], nl.arange(512)[None, :]], axis=[1], negate=False, dtype=np.float32, mask=None)
              v19[i15, i16, i14, i17, nl.arange(128)[:, None], 0] = nl.loop_reduce(v27[i14, i15, i16, i17, i18, i19, nl.arange(128)[:, None], 0], op=np.add, loop_indices=[i19, i18], dtype=np.float32, mask=None)
              ' end loop i19 '
            ' end loop i18 '
          v20[i15, i16, i14, i17, nl.arange(128)[:, None], 0] = nisa.reciprocal(data=v19[i15, i16, i14, i17, nl.arange(128)[:, None], 0], dtype=np.float32, mask=None)
          for i20 in nl.affine_range(2):
            for i21 in nl.affine_range(n3):
              v21[i17, i15, i16, i14, n3 * i20 + i21, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nisa.tensor_scalar(data=v18[i17, i15, i16, i14, i20, i21, nl.arange(128)[:, None], nl.arange(512)[None, :]], op0=nl.multiply, operand0=v20[i15, i16, i14, i17, nl.arange(128)[:, None], 0], reverse0=False, dtype=np.float32, mask=None, engine=nisa.unknown_engine)
              for i22 in nl.affine_range(4):
                v22[i14, i15, i16, i17, i20, i21, i22, nl.arange(128)[:, None], nl.arange(128)[None, :]] = nisa.nc_matmul(v21[i17, i15, i16, i14, n3 * i20 + i21, nl.arange(128)[:, None], 128 * i22 + nl.arange(128)[None, :]], v6[nl.arange(128)[:, None], nl.arange(128)[None, :]], is_stationary_onezero=False, is_moving_onezero=True, mask=None, is_transpose=True)
                v23[n3 * i20 + i21, i22, i15, i16, i14, i17, nl.arange(128)[:, None], nl.arange(128)[None, :]] = nl.copy(v22[i14, i15, i16, i17, i20, i21, i22, nl.arange(128)[:, None], nl.arange(128)[None, :]], dtype=np.float32, mask=None)
                ' end loop i22 '
              ' end loop i21 '
            ' end loop i20 '
          for i23 in nl.affine_range(n3 * 2):
            for i24 in nl.affine_range(4):
              v24[i14, i15, i16, i17, nl.arange(128)[:, None], nl.arange(n2)[None, :]] += nisa.nc_matmul(v23[i23, i24, i15, i16, i14, i17, nl.arange(128)[:, None], nl.arange(128)[None, :]], v16[i23, i24, nl.arange(128)[:, None], n5 * n2 * i15 + n2 * i16 + nl.arange(n2)[None, :]], is_stationary_onezero=False, is_moving_onezero=False, mask=None, is_transpose=False)
              ' end loop i24 '
            ' end loop i23 '
          v25[i15, i16, i14, i17, nl.arange(128)[:, None], nl.arange(n2)[None, :]] = nl.copy(v24[i14, i15, i16, i17, nl.arange(128)[:, None], nl.arange(n2)[None, :]], dtype=np.float32, mask=None)
          nl.store(v4[0, n5 * i15 + i16, i14, i17, nl.arange(128)[:, None], nl.arange(n2)[None, :]], value=v25[i15, i16, i14, i17, nl.arange(128)[:, None], nl.arange(n2)[None, :]], mask=None)
          ' end loop i17 '
        ' end loop i16 '
      ' end loop i15 '
    ' end loop i14 '
  return v4
