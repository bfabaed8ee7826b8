from __future__ import annotations

import pytest
from rewriter_kernels import Applied


@pytest.fixture
def applied():
    return Applied
