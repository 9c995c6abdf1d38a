# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Docker registries on the login host, and images made of a few of the machine's own programs.

# registry NAME PORT [CONFIGURATION]: starts one; its log is $BATS_FILE_TMPDIR/NAME.log.
registry() {
    local directory=/shared/registry-$1
    as_root_on login install -d -m 755 "$directory"
    as_root_on login sh -c "cat > '$directory/config.yml'" << YAML
version: 0.1
log: {level: info, formatter: text}
storage: {filesystem: {rootdirectory: $directory/data}}
http:
  addr: 0.0.0.0:$2
${3:-}
YAML
    "$MINICLUSTER" exec --user root -- docker-registry serve "$directory/config.yml" \
        > "$BATS_FILE_TMPDIR/$1.log" 2>&1 3>&- &
    echo $! >> "$BATS_FILE_TMPDIR/registries"
    wait_until 60 as_root_on login bash -c "exec 9<> /dev/tcp/127.0.0.1/$2"
}

# Ends all of them.
end_registries() {
    local pid
    while read -r pid; do
        kill "$pid" || true
        wait "$pid" || true
    done < "$BATS_FILE_TMPDIR/registries"
    as_root_on login rm -rf /shared/registry-*
}

# with_password PORT USER PASSWORD: a registry with TLS and that one user; its authority's
# certificate is /shared/registry-closed/ca.crt.
registry_with_password() {
    local directory=/shared/registry-closed
    as_root_on login bash -c '
        set -e
        install -d -m 755 "$1" && cd "$1"
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
            -subj "/CN=authority of the test" -keyout ca.key -out ca.crt
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=login \
            -keyout server.key -out server.csr
        openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \
            -extfile <(echo subjectAltName=DNS:login) -out server.crt
        perl -e "print \"$2:\", crypt(\"$3\", q(\$2y\$05\$abcdefghijklmnopqrstuu)), \"\n\"" \
            > htpasswd
        chmod 644 ca.crt' - "$directory" "$2" "$3" 2> /dev/null
    registry closed "$1" "  tls: {certificate: $directory/server.crt, key: $directory/server.key}
auth: {htpasswd: {realm: test, path: $directory/htpasswd}}"
}

# image LAYOUT TAG VERSION [MEBIBYTES]: an image with bash and busybox whose file /version has
# VERSION, and so much that cannot be compressed; its environment has IMAGE_COLOUR=blue.
image() {
    as_user bash -c '
        set -e
        root=$(mktemp -d)
        mkdir -p "$root"/{bin,etc,tmp,proc,sys,dev}
        cp /usr/bin/busybox "$root/bin"
        for name in sh cat ls id env sleep true; do ln -s busybox "$root/bin/$name"; done
        for file in /bin/bash $(ldd /bin/bash | grep -o "/[^ ]*"); do
            install -D "$file" "$root$file"
        done
        echo "$3" > "$root/version"
        head -c "$4M" /dev/urandom > "$root/ballast"
        [[ -d $1 ]] || umoci init --layout "$1"
        umoci new --image "$1:$2"
        umoci insert --rootless --image "$1:$2" "$root" /
        umoci config --image "$1:$2" --config.env IMAGE_COLOUR=blue
        rm -rf "$root"' - "$1" "$2" "$3" "${4:-0}" > /dev/null
}

# push SOURCE TARGET [OPTIONS…]: both without transport.
push() { as_user skopeo copy --quiet "${@:3}" "oci:$1" "docker://$2"; }
