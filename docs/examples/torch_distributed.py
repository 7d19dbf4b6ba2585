# /// script
# dependencies = ["streameval", "torch"]
# ///
"""Merges the states of all ranks of `torch.distributed`; each rank gets the total.

Run it: python torch_distributed.py (needs torch; two processes with gloo).
"""

from __future__ import annotations

import os
import sys
from tempfile import TemporaryDirectory
from typing import Any

from streameval import Accumulator


def all_reduce(accumulator: Accumulator, distributed: Any) -> Accumulator:
    """The merged counts of all ranks, with equal bits on each rank; the argument is not changed.

    Args:
        accumulator: of this rank; all ranks need the same metrics.
        distributed: `torch.distributed` after `init_process_group`.
    """
    states: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(states, accumulator.state_dict())
    whole, part = accumulator.copy(), accumulator.copy()
    whole.reset()
    for state in states:
        part.load_state_dict(state)
        whole.merge(part)
    return whole


def count(rank: int, world: int, folder: str) -> None:
    """One process: count every second batch, then merge."""
    import torch  # noqa: PLC0415  merging does not need it
    from torch import distributed  # noqa: PLC0415  merging does not need it

    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world
    )
    accumulator = Accumulator("ndcg@10", "hit_rate@10")
    for number in range(rank, 8, world):
        draw = torch.Generator().manual_seed(number)
        top = torch.rand(64, 100, generator=draw).topk(10).indices
        accumulator.update_many(top, torch.randint(0, 100, (64,), generator=draw))
    whole = all_reduce(accumulator, distributed)
    sys.stdout.write(f"{whole.lists} lists, ndcg@10 {whole.read('ndcg@10').value!r}\n")
    sys.stdout.flush()
    distributed.destroy_process_group()


def main() -> None:
    """Start two processes."""
    import torch.multiprocessing as processes  # noqa: PLC0415  only the parent starts processes

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with TemporaryDirectory() as folder:
        processes.spawn(count, args=(2, folder), nprocs=2)


if __name__ == "__main__":
    main()
