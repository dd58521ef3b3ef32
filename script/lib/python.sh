# The project's own Python environment, .venv, from requirements.lock. Sourced by script/setup and docs.

python_environment() {
    local wanted
    wanted=$(cat "$root/requirements.lock" pyproject.toml <(echo "$root") | sha256sum)
    if [ "$(cat .venv/.stamp 2>/dev/null)" = "$wanted" ] && .venv/bin/python -c '' 2>/dev/null; then
        say "ready"
        return
    fi
    local python
    python=$(find_python)
    find_uv "$python"
    if ! .venv/bin/python -c '' 2>/dev/null; then
        say "making .venv with $python"
        rm -rf .venv
        "$uv" venv --quiet --no-config --python "$python" .venv
    fi
    rm -f .venv/.stamp
    say "installing requirements.lock"
    trust_system_certificates
    export UV_LINK_MODE=${UV_LINK_MODE:-copy} VIRTUAL_ENV=$root/.venv
    "$uv" pip sync --quiet --compile-bytecode --require-hashes requirements.lock
    "$uv" pip install --quiet --no-deps --no-build-isolation --editable .
    echo "$wanted" >.venv/.stamp
    say "ready: .venv ($(.venv/bin/python --version))"
}

trust_system_certificates() {  # uv brings its own list, which lacks what a site's administrator added
    local bundle=/etc/ssl/certs/ca-certificates.crt
    [ ! -r "$bundle" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$bundle}"
}

find_python() {  # prints the path of the first Python 3.11 or newer
    local name path
    for name in python3 python3.11 python3.12 python3.13 python3.14; do
        path=$("$name" -c 'import sys; print(sys.executable) if sys.version_info >= (3, 11) else sys.exit(1)' 2>/dev/null) || continue
        echo "$path"
        return
    done
    fail "needs Python 3.11 or newer on PATH (Debian: apt-get install python3)"
}

find_uv() {  # sets `uv`: the one on PATH, else one in .venv-tools
    local python=$1
    for uv in uv "$root/.venv-tools/bin/uv" "$root/.venv-tools/lib/bin/uv"; do
        if "$uv" --version >/dev/null 2>&1; then return; fi
    done
    say "fetching uv into .venv-tools"
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null && [ "$(id -u)" -eq 0 ] && have apt-get; then
        apt_install python3-venv
    fi
    local pip
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        "$python" -m venv --clear .venv-tools
        pip=(.venv-tools/bin/pip install)
        uv=$root/.venv-tools/bin/uv
    elif "$python" -m pip --version >/dev/null 2>&1; then
        pip=("$python" -m pip install --target "$root/.venv-tools/lib")
        uv=$root/.venv-tools/lib/bin/uv
    else
        fail "$python can make no virtual environment: install the package python3-venv, or uv, and run script/setup again"
    fi
    "${pip[@]}" --quiet --disable-pip-version-check --require-hashes -r script/uv-bootstrap.lock
}
