# What the test of the TypeScript client needs, where node and npm are. Sourced by script/setup.

node_packages() {
    local directory=tests/generated/typescript
    if ! have node || ! have npm; then
        [ -e .venv/.npm-said ] || say "no node and npm here: the TypeScript client is not tested"
        touch .venv/.npm-said
        return
    fi
    cmp -s "$directory/package-lock.json" "$directory/node_modules/.installed-lock" && return
    say "installing $directory/package-lock.json"
    npm ci --prefix "$directory" --silent --no-audit --no-fund ||
        { say "npm could not install it: the TypeScript client is not tested"; return; }
    cp "$directory/package-lock.json" "$directory/node_modules/.installed-lock"
}
