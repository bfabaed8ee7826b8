"""The environment of a helper process."""

from __future__ import annotations

import os


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment of a helper process: an allow-list, nothing inherited but the language."""
    environment = {
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        # A helper has no use for them, and looking for them reads every installed package.
        "PYDANTIC_DISABLE_PLUGINS": "__all__",
    }
    # Some processors need these for a correct OpenBLAS; they hold no secret.
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment | extra
