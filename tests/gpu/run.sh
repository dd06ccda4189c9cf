#!/usr/bin/env bash
# Runs the parts of the GPU kit, prints one table and writes one result.json: see README.md.
#   run.sh [--out FOLDER] [--simgpu] [--bundle FOLDER] [PART...]
# All parts share 9 minutes; `run.sh case_study` alone, as a second command, gives that part all of its time.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ! command -v python3 >/dev/null; then
    echo "run.sh: there is no python3 in the PATH; it needs 3.8 or later" >&2
    exit 2
fi
# -B: nothing compiled is left beside the sources.
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
exec python3 -B -m harness.kit "$@"
