# System packages: PostgreSQL, pgvector, PgBouncer, the tools of two file systems, a clock for tests and a browser. Sourced by script/setup, bench and docs.

newest_server() {  # prints the directory of the newest PostgreSQL server's programs, or nothing
    local candidates=(/usr/lib/postgresql/*/bin/postgres /usr/pgsql-*/bin/postgres)
    local found
    found=$(printf '%s\n' "${candidates[@]}" | grep -v '\*' | sort -V | tail -1 || true)
    [ -n "$found" ] || found=$(command -v postgres || true)
    [ -z "$found" ] || dirname "$found"
}

have() {  # also finds programs in sbin, which an ordinary user's PATH leaves out
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

system_packages() {
    if [ "$(id -u)" -ne 0 ] || ! have apt-get; then
        report_missing
        return
    fi
    local missing=()
    [ -n "$(newest_server)" ] || missing+=(postgresql)
    have pgbouncer || missing+=(pgbouncer)
    have btrfs || missing+=(btrfs-progs)
    have mkfs.xfs || missing+=(xfsprogs)
    $for_demo || have faketime || missing+=(faketime)  # only proofs and tests need it: they step the clock of their processes
    [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
    install_pgvector
    $for_demo || install_browser
}

install_browser() {  # only the tests and the pictures of the console need it; Ubuntu has it as a snap, which is not used
    if have chromium && { installed fonts-inter || [ -e .venv/.stamp ]; }; then return; fi
    compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null || package_lists chromium
    if apt-cache show chromium >/dev/null 2>&1; then
        local wanted=(chromium)
        ! apt-cache show fonts-inter >/dev/null 2>&1 || wanted+=(fonts-inter)
        apt_install "${wanted[@]}"
    elif [ ! -e .venv/.stamp ]; then
        say "this distribution has no package chromium: the console's tests in a browser are skipped"
    fi
}

install_pgvector() {  # the distribution may not carry it; that is said once, and the wheel PostgreSQL has it
    local server major package
    server=$(newest_server)
    [[ $server =~ /([0-9]+)/bin$ ]] || return 0
    major=${BASH_REMATCH[1]}
    package="postgresql-$major-pgvector"
    if [ -e .venv/.stamp ] || installed "$package"; then return; fi
    if apt-cache show "$package" >/dev/null 2>&1; then
        apt_install "$package"
    else
        say "this distribution has no $package: VECTOR services run on the wheel PostgreSQL, which has pgvector and no TLS (set RAMET_PLAINTEXT_ENDPOINTS=on to create them, for this host alone)"
    fi
}

report_missing() {  # an ordinary user, or no apt: say what is not there and what works all the same
    [ -e .venv/.stamp ] && return
    local who="not root"
    [ "$(id -u)" -ne 0 ] || who="no apt-get here"
    [ -n "$(newest_server)" ] || say "$who, and no PostgreSQL server is installed: the wheel PostgreSQL is used (no TLS: set RAMET_PLAINTEXT_ENDPOINTS=on to create services, for this host alone)"
    have pgbouncer || say "$who, and PgBouncer (package pgbouncer) is missing: services have no pooler"
    have mkfs.xfs || say "$who, and mkfs.xfs (package xfsprogs) is missing: no XFS pool can be made"
    $for_demo || have faketime || say "$who, and faketime is missing: the tests that step the clock are skipped"
    have btrfs || say "$who, and btrfs (package btrfs-progs) is missing: no btrfs snapshots"
    $for_demo || have chromium || say "$who, and chromium is missing: the console's tests in a browser are skipped"
    if [ "$(id -u)" -ne 0 ]; then
        say "not root: forks share blocks only where the data directory's file system can (XFS, btrfs), else they are plain copies;" \
            "cpu and memory limits are not applied"
    fi
}

apt_install() {
    say "installing $*"
    quiet_services
    package_lists "$@"
    # postgresql-common has to be there before a server package, or that one creates and starts its own cluster.
    [[ " $* " != *" postgresql "* ]] || without_main_cluster
    apt install "$@" 2>/dev/null || { apt update; apt install "$@"; }
    # Ramet starts its own poolers; Debian's unit would start another one at the next boot.
    [[ " $* " != *" pgbouncer "* ]] || systemctl --quiet disable pgbouncer 2>/dev/null || true
    restore_system
}

apt() {  # quiet unless it fails
    local verb=$1 output status=0
    shift
    local options=(-qq -y -o DPkg::Lock::Timeout=300)
    [ "$verb" = update ] || options+=(--no-install-recommends)
    output=$(DEBIAN_FRONTEND=noninteractive apt-get "$verb" "${options[@]}" "$@" </dev/null 2>&1) || status=$?
    [ "$status" -eq 0 ] || printf '%s\n' "$output" | tail -20 >&2
    return "$status"
}

package_lists() {  # only fetched where a package is unknown
    local package
    for package in "$@"; do
        if ! apt-cache show "$package" >/dev/null 2>&1; then
            say "fetching package lists"
            apt update
            return
        fi
    done
}

# What is changed on the host while packages are installed, undone by restore_system also on failure.
policy=/usr/sbin/policy-rc.d
cluster_settings=/etc/postgresql-common/createcluster.conf
policy_is_ours=false
cluster_settings_kept=

quiet_services() {  # no package may start its service; an existing policy is its owner's and stays
    trap restore_system EXIT
    [ -e "$policy" ] && return
    policy_is_ours=true
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
}

without_main_cluster() {
    installed postgresql-common || apt install postgresql-common
    cluster_settings_kept=$(mktemp)
    cp -p "$cluster_settings" "$cluster_settings_kept"
    echo "create_main_cluster = false" >>"$cluster_settings"
}

restore_system() {
    if $policy_is_ours; then
        rm -f "$policy"
        policy_is_ours=false
    fi
    if [ -n "$cluster_settings_kept" ]; then
        cp -p "$cluster_settings_kept" "$cluster_settings"
        rm -f "$cluster_settings_kept"
        cluster_settings_kept=
    fi
}
