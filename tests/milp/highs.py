"""HiGHS for rtswap-milp: solves one mixed-integer linear program per line of standard input.

Each line in and out is one JSON object; src/solver.rs is the other side. The first line out is

    {"ready": {"version": "1.15.1"}}  or  {"failed": "what, where, what to do"}

A program minimises cost·x over x ≥ 0. Its rows are sparse: row r has the coefficients value[start[r]:start[r + 1]]
in the columns index[start[r]:start[r + 1]], and their sum is at most bound[r]:

    {"options": {"threads": 1, …}, "cost": […], "upper": [4.0, null, …], "integer": [true, false, …],
     "rows": {"start": […], "index": […], "value": […], "bound": […]}}

An upper bound of null is none. The answer has a value per column if the status is "optimal", else none, and the
seconds that HiGHS took to take in the program and to solve it:

    {"solved": {"status": "optimal" | "infeasible" | "unknown", "values": […], "seconds": 0.001}}
"""

import json
import math
import os
import sys
import time


def main():
    # HiGHS's own prints go to standard error: a line among the answers would be taken for one.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(kind, content):
        # A number that JSON does not have is an error here, not nonsense there.
        print(json.dumps({kind: content}, allow_nan=False), file=answers, flush=True)

    try:
        import highspy
    except ImportError as error:
        answer(
            "failed",
            f"{sys.executable} cannot import highspy ({error}): install tests/milp/requirements.txt for it, "
            "or name another interpreter by --python",
        )
        return
    answer("ready", {"version": highspy.Highs().version()})
    for line in sys.stdin:
        try:
            answer("solved", solve(highspy, json.loads(line)))
        except Refused as refused:
            answer("failed", str(refused))
            return


class Refused(Exception):
    """HiGHS did not take an option or a program as it was given."""


def solve(highspy, program):
    """Solves `program`; the content of "solved"."""
    start = time.perf_counter()
    highs = highspy.Highs()
    accept(highspy, "output_flag", highs.setOptionValue("output_flag", False))
    for name, value in program["options"].items():
        accept(highspy, name, highs.setOptionValue(name, value))
    accept(highspy, "the program", highs.passModel(model(highspy, program)))
    highs.run()
    seconds = time.perf_counter() - start
    found = highspy.HighsModelStatus
    status = {
        found.kOptimal: "optimal",
        found.kInfeasible: "infeasible",
        # No objective of ours is unbounded: a sum of nonnegative terms is minimised.
        found.kUnboundedOrInfeasible: "infeasible",
    }.get(highs.getModelStatus(), "unknown")
    values = list(highs.getSolution().col_value) if status == "optimal" else []
    return {"status": status, "values": values, "seconds": seconds}


def accept(highspy, what, status):
    """A warning too is a refusal: HiGHS warns where it drops or changes a coefficient."""
    if status != highspy.HighsStatus.kOk:
        raise Refused(f"HiGHS {highspy.Highs().version()} does not take {what}: {status.name}")


def model(highspy, program):
    """`program` as HiGHS has it."""
    rows, columns = program["rows"], len(program["cost"])
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns, len(rows["bound"])
    lp.col_cost_ = program["cost"]
    lp.col_lower_ = [0.0] * columns
    lp.col_upper_ = [math.inf if upper is None else upper for upper in program["upper"]]
    kind = highspy.HighsVarType
    lp.integrality_ = [kind.kInteger if integer else kind.kContinuous for integer in program["integer"]]
    lp.row_lower_ = [-math.inf] * lp.num_row_
    lp.row_upper_ = rows["bound"]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = rows["start"], rows["index"]
    lp.a_matrix_.value_ = rows["value"]
    return lp


if __name__ == "__main__":
    main()
