"""Cutting a joint graph into a forward and a backward."""

from aotgrad.partition.default import partition_default
from aotgrad.partition.min_cut import partition_min_cut
from aotgrad.partition.narrow import narrow
from aotgrad.partition.split import Partition, Partitioner, Saved, split

__all__ = ["Partition", "Partitioner", "Saved", "narrow", "partition_default", "partition_min_cut", "split"]
