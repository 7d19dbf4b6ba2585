# /// script
# dependencies = ["lightning", "streameval", "torch"]
# ///
"""A Lightning callback that logs ranking metrics over all batches of a validation.

Run it: python lightning_callback.py (needs torch and lightning). With several devices, each logs
its own value; torch_distributed.py shows how to merge them.
"""

from __future__ import annotations

from typing import Any

import lightning.pytorch as lightning

from streameval import Accumulator


class RankingMetrics(lightning.Callback):
    """Counts what `validation_step` returns: {"top": ids (B, K), "truth": ids (B,) or (B, N)}.

    Args:
        metrics: for example "ndcg@10".
    """

    def __init__(self, *metrics: str) -> None:
        self.accumulator = Accumulator(*metrics)

    def on_validation_epoch_start(self, *_: Any) -> None:
        """Reset the counts."""
        self.accumulator.reset()

    def on_validation_batch_end(self, _trainer: Any, _module: Any, outputs: Any, *_: Any) -> None:
        """Count a batch; tensors on a device are copied to the CPU."""
        self.accumulator.update_many(outputs["top"], outputs["truth"])

    def on_validation_epoch_end(self, _trainer: Any, module: Any) -> None:
        """Log the values of the whole validation."""
        for name, reading in self.accumulator.compute().items():
            module.log(f"val/{name}", reading.value)


def main() -> None:
    """Validate a model with random scores."""
    import torch  # noqa: PLC0415  the callback does not need it

    class Model(lightning.LightningModule):
        def validation_step(self, batch: Any, _number: int) -> dict[str, Any]:
            (truth,) = batch
            return {"top": torch.rand(len(truth), 100).topk(10).indices, "truth": truth}

    truth = torch.utils.data.TensorDataset(torch.randint(0, 100, (256,)))
    trainer = lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        callbacks=[RankingMetrics("ndcg@10", "hit_rate@10")],
    )
    trainer.validate(Model(), torch.utils.data.DataLoader(truth, batch_size=64))


if __name__ == "__main__":
    main()
