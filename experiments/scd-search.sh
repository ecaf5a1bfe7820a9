#!/usr/bin/env bash
# What helps SCD and what does not, on the validation split: the tables of docs/RESULTS.md.
# usage: experiments/scd-search.sh [OUT]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-runs/scd-search}
formant=${FORMANT:-target/release/formant}
[ -n "${FORMANT:-}" ] || cargo build --release --quiet
search() { echo; echo "## $*"; "$formant" sweep experiments/scd-search.toml --quiet --rank pm --out "$out" "$@"; }
scd() { search --method scd --set "method.form=$1" "${@:2}"; }

search --method fedavg --grid train.learning_rate=0.05,0.1,0.2
search --method local --grid train.learning_rate=0.05,0.1,0.2
search --method ditto --grid method.lambda=0.03,0.1,0.3,1,3
scd normalized --grid method.lambda_p=1,30,300 --grid method.warm_up=0,0.333,0.667
scd normalized --set method.scope=per-layer --set method.warm_up=0.667 --grid method.lambda_p=10,100,1000
scd generalized --set method.warm_up=0.667 --grid method.lambda_p=1e-5,1e-4,1e-3
scd complex --grid method.lambda_p=0.1,0.3,1 --grid method.tau_p=0.1,0.5,1
scd complex --grid method.lambda_p=0.1,0.3,1 --grid method.warm_up=0.333,0.667
scd complex --set method.lambda_p=0.3 --grid method.lambda_g=0.03,0.1,0.3 --grid method.tau=0.1,0.5
scd normalized --set method.lambda_p=100 --grid method.lambda_g=10,100,1000 --grid method.tau=0.1,0.5
