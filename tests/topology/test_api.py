from __future__ import annotations

import topology


def test_public_names_are_sorted_and_importable() -> None:
    assert list(topology.__all__) == sorted(topology.__all__)
    assert all(hasattr(topology, name) for name in topology.__all__)
