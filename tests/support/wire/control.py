"""Shared parts of tests of the control plane's documents."""

from __future__ import annotations

from odps_nb.terms import PartitionSpec, TableName

TABLE = TableName(project="p1", table="t")
DS = PartitionSpec.of("ds=x,h=1")
NOW = 1763676245.0
