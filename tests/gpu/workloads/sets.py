"""The task sets of the case study, from the paper's Tables III and IV (RT-Swap, RTAS 2024), and how they are planned."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Tuple

GIB = 1 << 30
MIB = 1 << 20

# What the paper's sets are made for.
PAPER_CAPACITY = 24 * GIB

# Table III, by (model, resolution): footprint and swappable memory in GB, which are read as GiB.
TABLE_3: Dict[Tuple[str, int], Tuple[float, float]] = {
    ("resnet", 256): (1.4, 0.7),
    ("resnet", 416): (2.4, 1.4),
    ("resnet", 608): (3.8, 2.7),
    ("yolo", 256): (2.3, 1.1),
    ("yolo", 416): (3.6, 2.6),
    ("yolo", 608): (6.2, 5.2),
    ("densenet", 416): (1.6, 0.9),
    ("resnext", 416): (3.2, 2.2),
    # 5.65, which rounds to the table's 5.7, makes the 25.6 GB that the text gives for the six tasks of Table IV.
    ("resnext", 608): (5.65, 4.5),
}


class Task(NamedTuple):
    """One task: memory in bytes, times in ms."""

    name: str
    model: str
    resolution: int
    footprint: int
    swappable: int
    period_ms: float


def _tasks(rows: List[Tuple[str, int, float]]) -> List[Task]:
    tasks = []
    for place, (model, resolution, period_ms) in enumerate(rows, 1):
        footprint, swappable = (int(size * GIB) for size in TABLE_3[model, resolution])
        tasks.append(Task(f"t{place}-{model}-{resolution}", model, resolution, footprint, swappable, period_ms))
    return tasks


# Table IV: 25.6 GB on 24 GB.
TABLE_4 = _tasks(
    [("densenet", 416, 600.0), ("resnet", 256, 600.0)]
    + [("resnext", 608, period) for period in (900.0, 900.0, 1200.0, 1200.0)]
)

_HEAVY = "resnet 416, resnet 416, resnet 608, resnet 608, yolo 256, yolo 416, yolo 608, yolo 608, densenet 416, resnext 416, resnext 608, resnext 608"
# Ours, in the manner of Section VII-B: 12 tasks that overflow by 95 %, periods from 3 to 5 s.
HEAVY = _tasks(
    [(row.split()[0], int(row.split()[1]), 3000.0 + 180.0 * place) for place, row in enumerate(_HEAVY.split(", "))]
)


def overflow(tasks: List[Task], capacity: int) -> float:
    """By how much, in percent, they need more than there is."""
    return 100.0 * (sum(task.footprint for task in tasks) / capacity - 1)


def scaled(tasks: List[Task], capacity: int, context: int) -> List[Task]:
    """For a GPU with another capacity than the paper's. What cannot be swapped is at least a context, which does not scale: where it
    takes more than its share, the rest is less, so that the sum stays in proportion."""
    factor = capacity / PAPER_CAPACITY
    out = []
    for task in tasks:
        footprint = int(task.footprint * factor)
        fixed = max(footprint - int(task.swappable * factor), context)
        out.append(task._replace(footprint=footprint, swappable=max(footprint - fixed, 0)))
    return out


class Costs(NamedTuple):
    """What swapping costs on this machine: GiB/s and µs per chunk, out and in; µs per operation."""

    out_gib_per_s: float
    in_gib_per_s: float
    out_chunk_us: float
    in_chunk_us: float
    base_us: float

    def tables(self) -> Dict[str, Dict[str, float]]:
        """As [swap_cost.out] and [swap_cost.in] have them."""
        return {
            "out": {"base_us": self.base_us, "per_chunk_us": self.out_chunk_us, "gib_per_s": self.out_gib_per_s},
            "in": {"base_us": self.base_us, "per_chunk_us": self.in_chunk_us, "gib_per_s": self.in_gib_per_s},
        }

    def drain_ms(self, chunk: int) -> float:
        """As the daemon has it: a chunk and a base of the slower direction, and 5 ms."""
        copies = chunk / GIB / min(self.out_gib_per_s, self.in_gib_per_s) * 1e3
        return copies + (max(self.out_chunk_us, self.in_chunk_us) + self.base_us) / 1e3 + 5.0


def task_set(tasks: List[Task], wcets_ms: Dict[str, float], capacity: int, chunk: int, costs: Costs, factor: float) -> str:
    """A file for `rtswapctl plan`, with all periods times a factor."""
    lines = ["version = 1", "[gpu]", f"memory = {capacity}", f"chunk = {chunk}", f"drain_ms = {costs.drain_ms(chunk):.3f}"]
    for direction, table in costs.tables().items():
        lines += [f"[swap_cost.{direction}]"] + [f"{key} = {value:.3f}" for key, value in table.items()]
    for task in tasks:
        lines += ["[[task]]", f'name = "{task.name}"', f"period_ms = {task.period_ms * factor:.3f}"]
        lines += [f"wcet_ms = {wcets_ms[task.name]:.3f}", f"footprint = {task.footprint}", f"swappable = {task.swappable}"]
    return "\n".join(lines) + "\n"
