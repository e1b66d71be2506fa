"""Print what commits, branches and a cold start ask of an S3 server, at several depths of history and numbers of tables;
and what a write key adds to that."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from history.cost_on_s3 import Cost, cost_table
from history.key_cost_on_s3 import KeyCost, key_costs
from s3_server import S3Server


def main() -> None:
    with S3Server() as s3:
        print(Cost.HEADER)
        for cost in cost_table(s3, depths=(1, 10, 100, 1_000), tables=(5, 200)):
            print(cost, flush=True)
        print("\nwrite keys\n" + KeyCost.HEADER)
        for key_cost in key_costs(s3, depths=(10, 10_000)):
            print(key_cost, flush=True)


if __name__ == "__main__":
    main()
