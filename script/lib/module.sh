# The loadable module for read-only sessions, built where a C compiler is. Sourced by script/setup.

read_only_module() {
    have cc || have gcc || have clang || return 0
    local server
    for server in /usr/lib/postgresql/*/bin/postgres; do
        [ ! -x "$server" ] || server_headers "$(basename "$(dirname "$(dirname "$server")")")"
    done
    .venv/bin/python -m ramet.backends.local.server.read_only_module | sed 's/^/setup: /'
}

server_headers() {  # Debian's package brings clang and llvm along: its headers alone are unpacked into .venv
    local major=$1 target=.venv/lib/ramet/headers/$1 package="postgresql-server-dev-$1" place
    if [ -e "/usr/include/postgresql/$major/server/postgres.h" ] || [ -e "$target/server/postgres.h" ]; then return; fi
    [ ! -e ".venv/lib/ramet/$major/ramet_read_only.so" ] || return 0
    have apt-get && have dpkg-deb || return 0
    [ "$(id -u)" -ne 0 ] || package_lists "$package" || true
    place=$(mktemp -d)
    if (cd "$place" && apt-get download -qq "$package" >/dev/null 2>&1 && dpkg-deb -x ./*.deb .); then
        mkdir -p "$target"
        mv "$place/usr/include/postgresql/$major/server" "$target/"
    else
        say "the headers of $package cannot be fetched: no module for read-only sessions of PostgreSQL $major"
    fi
    rm -rf "$place"
}
