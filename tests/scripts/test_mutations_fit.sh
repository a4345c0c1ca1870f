#!/usr/bin/env bash
# Planted bugs follow the sources they are planted in: every one still fits. Argument: checkout.
set -euo pipefail
exec python3 -B "$1/scripts/mutations.py" --fit
