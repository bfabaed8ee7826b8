from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt.embedders import HashedTokenEmbedder

LOAD_STORE = "def kernel(x):\n    tile = nl.load(x)\n    nl.store(out, value=nl.exp(tile))\n"
MATMUL = "def kernel(a, b):\n    acc = nl.zeros((128, 512))\n    acc += nisa.nc_matmul(a, b)\n"


def cosine(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


@given(st.text(max_size=200))
def test_every_text_has_a_unit_vector_of_the_right_length(text):
    [vector] = HashedTokenEmbedder().embed([text])
    assert len(vector) == HashedTokenEmbedder().dimension == 512
    assert math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-9)


def test_similar_kernels_are_closer_than_different_ones():
    renamed = LOAD_STORE.replace("exp", "tanh")
    base, near, far = HashedTokenEmbedder().embed([LOAD_STORE, renamed, MATMUL])
    assert cosine(base, near) > 0.8
    assert cosine(base, far) < cosine(base, near) - 0.2


def test_parts_of_names_count():
    embed = HashedTokenEmbedder().embed
    one, same_parts, other = embed(["load_tile_fast", "fast_tile_load", "abc_def_ghi"])
    assert cosine(one, same_parts) > 0.3
    assert abs(cosine(one, other)) < 0.3


def test_the_order_of_tokens_counts_a_little():
    one, other = HashedTokenEmbedder().embed(["load store exp", "exp load store"])
    assert 0.5 < cosine(one, other) < 0.999


def test_vectors_are_the_same_in_another_process_whatever_the_hash_seed():
    code = (
        "from accelopt.embedders import HashedTokenEmbedder\n"
        f"print(repr(HashedTokenEmbedder(16).embed([{MATMUL!r}])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "7", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == repr(HashedTokenEmbedder(16).embed([MATMUL]))


def test_too_few_dimensions_are_refused():
    with pytest.raises(ValueError, match="8"):
        HashedTokenEmbedder(4)


def test_the_name_is_pinned_because_stores_keep_it():
    assert HashedTokenEmbedder().name == "hashed-tokens"
