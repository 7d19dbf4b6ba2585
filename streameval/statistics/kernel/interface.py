"""What the kernel in C and the one in Python have in common."""

from typing import Final, TypeAlias

INTERFACE: Final = 8
"""Raised with every change of what a kernel takes or gives; a compiled one has the same number."""

BLOCK: Final = 512
"""Rows of a full block, which takes no more before they are taken."""

MatchBytes: TypeAlias = tuple[bytes, ...]
"""The columns of `Matches` as bytes of 64-bit integers and floats, in their order."""
