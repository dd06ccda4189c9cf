"""Prints the hash of the text, and the name, of each graph that is kept."""

import gzip
import hashlib
import pathlib

for path in sorted(pathlib.Path("tests/eval/graphs").glob("*.json.gz")):
    print(hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest(), path.name.removesuffix(".json.gz"))
