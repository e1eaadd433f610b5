#!/usr/bin/env bash
# Measures the branch main every night and publishes its history. For cron, with `crontab -e`:
#   15 3 * * *  CHECKOUT=$HOME/project SITE=$HOME/site $HOME/nightly.sh
# cron sends what it prints. The virtual environment `env` next to the checkout has torch and
# torchmark.
set -euo pipefail
cd "$CHECKOUT"
export PATH="$PWD/../env/bin:$PATH"
store=${STORE:-$PWD/../benchmarks.db}

git fetch --quiet origin main
git checkout --quiet -B main FETCH_HEAD
pip install --quiet .

torchmark run benchmarks/ --budget "${BUDGET:-2}" --store "$store" --quiet > run.txt
status=0
torchmark check --store "$store" --quiet || status=$?
torchmark publish "$SITE" --store "$store"
exit "$status"
