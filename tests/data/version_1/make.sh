#!/bin/sh
# Makes the files of this directory again. They are what torchmark 0.1 wrote, so they need its code:
#
#     PYTHONPATH=path/to/torchmark-0.1/src sh make.sh python
#
# store.sqlite3       four runs: a suite, a suite that Ctrl-C cut short, two sweeps
# RUN.csv             what 0.1 exported of each of them, by their tags `finished`, `interrupted`,
#                     `sweep` and `from-csv`; the rows of the last came from a CSV, without samples
# linear.csv          the CSV of both sweeps, with all that 0.1 knew of their rows
# measurements.json   what `torchmark time --json` printed, and counts.json what `count --json` did
set -eu
python=${1:?"name the Python interpreter that has torch"}
cd "$(dirname "$0")"
rm -f store.sqlite3* ./*.csv ./*.json

torchmark() { "$python" -m torchmark "$@"; }

torchmark run bench_small.py --quick --repeats 2 --store store.sqlite3 --tag finished --tag other ||
    test $? = 3

# Stopped as soon as one result is there. (A shell lets its background jobs ignore Ctrl-C.)
"$python" -m torchmark run bench_small.py --quick --time -k 'add or mul' --store store.sqlite3 \
    --tag interrupted 2>progress.txt &
pid=$!
until grep -q add progress.txt; do sleep 0.01; done
kill -TERM $pid
wait $pid || true
rm progress.txt

torchmark sweep linear.py --csv linear.csv --store store.sqlite3 || test $? = 3
torchmark tag latest sweep --store store.sqlite3
# Another name for the CSV: the store takes its rows over and has no samples for them.
cp linear.csv copy.csv
torchmark sweep linear.py --csv copy.csv --store store.sqlite3 || test $? = 3
torchmark tag latest from-csv --store store.sqlite3
rm copy.csv

for run in finished interrupted sweep from-csv; do
    torchmark export $run --format csv --store store.sqlite3 --output $run.csv
done
torchmark time 'x + x' 'x * x' --setup 'x = torch.ones(4)' --min-run-time 0.01 --json >measurements.json
torchmark count 'x + x' --setup 'x = torch.ones(4)' --number 10 --json >counts.json
rm -rf artifacts
