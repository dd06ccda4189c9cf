"""What the jobs of a task set came to."""

from __future__ import annotations

from typing import Any, Dict, List

PERCENTILES = (50, 90, 99, 100)


def percentile(values: List[float], percent: float) -> float:
    """The smallest of them that so many percent do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100).__int__() - 1)] if ordered else 0.0


def cdf(values: List[float], points: int = 20) -> List[float]:
    """Percentiles at equal steps, from the least to the largest."""
    return [round(percentile(values, 100.0 * place / points), 3) for place in range(points + 1)]


def spread(values: List[float]) -> float:
    """The longest over the median, by which latencies differ; 0 of none."""
    median = percentile(values, 50)
    return max(values) / median if median else 0.0


def summary(results: Dict[str, Dict[str, Any]]) -> Dict[str, Any]:
    """Of all tasks of a run together; times of tasks with different periods as parts of their deadlines."""
    responses = [part for row in results.values() for part in row["of_deadline"]]
    return {
        "jobs": sum(row["jobs"] for row in results.values()),
        "misses": sum(row["misses"] for row in results.values()),
        "wrong": sum(row["wrong"] for row in results.values()),
        "spread": max((spread(row["held_ms"]) for row in results.values()), default=0.0),
        "of_deadline": {f"p{percent}": percentile(responses, percent) for percent in PERCENTILES},
    }
