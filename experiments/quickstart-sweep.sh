#!/usr/bin/env bash
# The sweep behind the quickstart's hyper-parameters: twelve settings for every method, seed 1, scored
# on the validation split. The quickstart's division of the images is fixed (data.seed), so none of
# these images is a test image of any seed of its table. SCD's warm_up and tau were placed by the
# search in scd-search.sh. Finished settings are kept under OUT: it can be interrupted and run again.
# usage: experiments/quickstart-sweep.sh [OUT]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-runs/quickstart-sweep}
formant=${FORMANT:-target/release/formant}
[ -n "${FORMANT:-}" ] || cargo build --release --quiet
sweep() { echo; echo "## $2"; "$formant" sweep --quiet --out "$out" "$@"; }

# Learning rate and momentum for the two methods that have nothing else.
sweep --method local --grid method.train.personal_learning_rate=0.01,0.02,0.05,0.1 --grid train.momentum=0,0.5,0.9
sweep --method fedavg --grid train.learning_rate=0.02,0.05,0.1,0.2 --grid train.momentum=0,0.5,0.9

# The shared phase of the others is FedAvg's, so it runs with FedAvg's winner (the quickstart's
# [train]); what is left to choose is the personal phase.
sweep --method ditto --grid method.lambda=0.1,0.3,1,3 --grid method.train.personal_learning_rate=0.01,0.02,0.05
sweep --method SCD --grid method.lambda_p=10,30,100 --grid method.lambda_g=0,1 --grid method.train.personal_learning_rate=0.01,0.02
sweep --method "SCD complex" --grid method.lambda_p=0.1,0.3,1 --grid method.lambda_g=0,0.03 --grid method.train.personal_learning_rate=0.01,0.02
