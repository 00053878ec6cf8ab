#!/bin/sh
# Every check that needs a GPU, in one go and within ten minutes: the tests marked gpu, then the
# tables of benchmarks/gpu.py and gpu_scan.py. Nothing is fetched. Results: $OUT, or bench-out
# where it is not set.
#
#     sh benchmarks/gpu.sh            with .venv made by: make setup test EXTRA=gpu
#     PYTHON=python3 sh benchmarks/gpu.sh        with another environment
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
out=${OUT:-bench-out}
began=$(date +%s)

if ! "$python" -c 'import onnxruntime, pytest, hypothesis, polars, safetensors' 2>/dev/null; then
    echo "gpu.sh: $python is missing or lacks packages; make test EXTRA=gpu sets .venv up, or" >&2
    echo "pip install -e '.[gpu]' --group test -c constraints.txt in another and PYTHON=..." >&2
    exit 4
fi
export PYTHONPATH=".:kernels:models:tests"
"$python" - <<'END' || exit 4
import sys
from hindsight_models import ModelError
from hindsight_models.session import check_cuda
try:
    print(f"gpu.sh: {check_cuda()} GPU(s)")
except ModelError as error:
    sys.exit(f"gpu.sh: no GPU can be used: {error}")
END
mkdir -p "$out"

# All are done, whatever the first says: GPU time is dear.
tests=0
timeout 330 "$python" -m pytest -m gpu tests/test_gpu.py -v -p no:cacheprovider \
    --durations=0 --junitxml="$out/gpu-tests.xml" || tests=$?
table=0
left=$((490 - $(date +%s) + began))
timeout "$left" "$python" -m benchmarks.gpu --seconds "${SECONDS_PER_ROW:-5}" \
    --json "$out/gpu.json" || table=$?
scan=0
left=$((590 - $(date +%s) + began))
timeout "$left" "$python" -m benchmarks.gpu_scan --papers "${PAPERS:-300000}" --seconds 1 \
    --json "$out/gpu-scan.json" || scan=$?
echo "gpu.sh: tests exit $tests, table exit $table, scan exit $scan," \
    "$(($(date +%s) - began)) s; see $out"
[ "$tests" -eq 0 ] && [ "$table" -eq 0 ] && [ "$scan" -eq 0 ]
