#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains a tiny BERT with the Trainer of Hugging Face Transformers.

The model has random weights and the sentences are random numbers, so nothing is downloaded. Each
rank generates the same sentences; those of the second class begin with a certain word.
"""

from __future__ import annotations

import argparse
import socket
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

WORDS = 64
SENTENCE = 8
WORD_OF_SECOND_CLASS = 1


class Sentences(Dataset):
    """Sentences of random words, and the class of each."""

    def __init__(self, count: int) -> None:
        random = torch.Generator().manual_seed(0)
        self.labels = torch.randint(2, (count,), generator=random)
        self.words = torch.randint(2, WORDS, (count, SENTENCE), generator=random)
        self.words[self.labels == 1, 0] = WORD_OF_SECOND_CLASS

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[index], "labels": self.labels[index]}


def main() -> None:
    """Train, and print the loss over all sentences before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--use-cpu", action="store_true", help="do not use GPUs")
    options = parser.parse_args()

    data = Sentences(512)
    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=WORDS,
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=SENTENCE,
        )
    )
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory,
            use_cpu=options.use_cpu,
            per_device_train_batch_size=16,
            num_train_epochs=4,
            learning_rate=3e-3,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=data)
        before = loss_of(model, data)
        trainer.train()
        after = loss_of(model, data)
    print(
        f"rank {arguments.process_index} of {arguments.world_size} on {socket.gethostname()}:"
        f" loss {before:.6f} -> {after:.6f}",
        flush=True,
    )


@torch.no_grad()
def loss_of(model: BertForSequenceClassification, data: Sentences) -> float:
    """Return the mean loss over all sentences, which each rank computes alone."""
    model.eval()
    output = model(input_ids=data.words.to(model.device), labels=data.labels.to(model.device))
    return output.loss.item()


if __name__ == "__main__":
    main()
