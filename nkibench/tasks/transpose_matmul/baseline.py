import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import neuronxcc.nki.isa as nisa
from neuronxcc.nki import trace
from neuronxcc.nki.language import par_dim


@nki.jit
def kernel(v1, v2):
  import numpy as np
  import neuronxcc.nki as nki
  import neuronxcc.nki.language as nl
  import neuronxcc.nki.typing as nt
  import neuronxcc.nki.isa as nisa
  from neuronxcc.nki import trace
  from neuronxcc.nki.language import par_dim
  n0 = v1.shape[2] // 1024
  n1 = v1.shape[1]
  n2 = v2.shape[2]
  n3 = (n2 + 1023) // 1024
  v3 = nl.ndarray((n0 * 8, 128, n2), dtype=np.float32, buffer=nl.shared_hbm, name='out')
  v4 = nl.ndarray((n0, n1, nl.par_dim(128), 1024), dtype=np.float32, buffer=nl.sbuf, name='lhs_tile')
  v5 = nl.ndarray((n0, n3, n1, nl.par_dim(128), 1024), dtype=np.float32, buffer=nl.sbuf, name='rhs_tile')
  v6 = nl.zeros((n0, n3, 8, 2, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.psum, name='', lazy_initialization=True)
  v7 = nl.ndarray((n0, 8, n3, nl.par_dim(128), 1024), dtype=np.float32, buffer=nl.sbuf, name='out_tile')
  for i0 in nl.affine_range(n0):
    for i1 in nl.affine_range(n1):
      v4[i0, i1, nl.arange(128)[:, None], nl.arange(1024)[None, :]] = nl.load(v1[nl.arange(128)[:, None], i1, 1024 * i0 + nl.arange(1024)[None, :]], dtype=np.float32, mask=None)
      ' end loop i1 '
    for i2 in nl.affine_range(n3):
      for i3 in nl.affine_range(n1):
        v5[i0, i2, i3, nl.arange(128)[:, None], nl.arange(1024)[None, :]] = nl.load(v2[nl.arange(128)[:, None], i3, 1024 * i2 + nl.arange(1024)[None, :]], dtype=np.float32, mask=-1024 * i2 - nl.arange(1024)[None, :] + (n2 - 1) >= 0)
        ' end loop i3 '
      for i4 in nl.affine_range(8):
        for i5 in nl.affine_range(2):
          for i6 in nl.affine_range(n1):
            v6[i0, i2, i4, i5, nl.arange(128)[:, None], nl.arange(512)[None, :]] += nisa.nc_matmul(v4[i0, i6, nl.arange(128)[:, None], 128 * i4 + nl.arange(128)[None, :]], v5[i0, i2, i6, nl.arange(128)[:, None], 512 * i5 + nl.arange(512)[None, :]], is_stationary_onezero=False, is_moving_onezero=False, mask=-1024 * i2 - 512 * i5 - nl.arange(512)[None, :] + (n2 - 1) >= 0, is_transpose=False)
            ' end loop i6 '
          v7[i0, i4, i2, nl.arange(128)[:, None], 512 * i5 + nl.arange(512)[None, :]] = nl.copy(v6[i0, i2, i4, i5, nl.arange(128)[:, None], nl.arange(512)[None, :]], dtype=np.float32, mask=-1024 * i2 - 512 * i5 - nl.arange(512)[None, :] + (n2 - 1) >= 0)
          ' end loop i5 '
        nl.store(v3[8 * i0 + i4, nl.arange(128)[:, None], 1024 * i2 + nl.arange(1024)[None, :]], value=v7[i0, i4, i2, nl.arange(128)[:, None], nl.arange(1024)[None, :]], mask=-1024 * i2 - nl.arange(1024)[None, :] + (n2 - 1) >= 0)
        ' end loop i4 '
      ' end loop i2 '
    ' end loop i0 '
  return v3
