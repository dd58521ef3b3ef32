# Install Ramet in a virtual environment of this job, unless the runner has the command: the packages of the job's own
# Python stay as they are, and that of Debian and Ubuntu takes none (PEP 668). Only the command ramet is put on the PATH:
# the environment's python3 would stand in front of the job's.
set -euo pipefail
command -v ramet >/dev/null && exit 0
home="$RUNNER_TEMP/ramet"
python3 -m venv "$home/venv"
"$home/venv/bin/python3" -m pip install --quiet "${RAMET_PACKAGE:-$GITHUB_ACTION_PATH/../../..}"
mkdir -p "$home/bin"
ln -sf "$home/venv/bin/ramet" "$home/bin/ramet"
echo "$home/bin" >>"$GITHUB_PATH"
