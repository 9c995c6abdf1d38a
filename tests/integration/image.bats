#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Images: from real registries (one plain, one with TLS and a password) into the cache.

bats_require_minimum_version 1.5.0
load lib
load registry

home=/home/alice/images
open=login:5000
closed=login:5443

setup_file() {
    as_user mkdir -p "$home"
    registry open 5000
    registry_with_password 5443 ada 'opensesame 7'
    image "$home/layout" v1 one 16
    image "$home/layout" v2 two
    push "$home/layout:v1" "$open/tests/tiny:v1" --dest-tls-verify=false
    push "$home/layout:v1" "$closed/tests/tiny:v1" --dest-tls-verify=false \
        --dest-creds 'ada:opensesame 7'
    as_user install -D -m 644 /shared/registry-closed/ca.crt \
        "/home/alice/.config/containers/certs.d/$closed/ca.crt"
}

teardown_file() {
    end_registries
    as_user rm -rf "$home" /home/alice/.docker /home/alice/.config/containers
}

setup() {
    as_user rm -rf /home/alice/.docker
    site '' > /dev/null
}

teardown() { cancel_jobs; }

# site LINES: the site file of the suite, with the open registry as insecure.
site() {
    site_lua << LUA | as_user bash -c "cat > $home/site.lua"
return { insecure_registries = { "$open" },
$1
}
LUA
}

batchai_on() {
    as_user_on "$1" env "BATCHAI_SITE=$home/site.lua" "BATCHAI_HOME=$home/records" \
        "$PREFIX/bin/batchai" "${@:2}"
}
batchai() { batchai_on login "$@"; }

empty_cache() { as_user rm -rf "$home/records/images"; }

# The entries of the cache, and what imports left.
entries() { as_user find "$home" -path '*/records/images/*.squashfs' -not -path '*/.import/*'; }
# A file server keeps what is removed while somebody has it open (remote_fs.cpp).
nothing_is_left_of_imports() {
    prints_nothing as_user find "$home/records/images/.import" -mindepth 1 -not -name '.fuse_hidden*'
}

# job IMAGE [REGISTRY_LINES]: a job file that prints the version of the image it runs in.
job() {
    as_user bash -c "cat > $home/job.json" << JSON
{
  "properties": {
    "nodeCount": 1,
    "stdOutErrPathPrefix": "$home/out",
    "containerSettings": {
      "imageSourceRegistry": {
        ${2:-}
        "image": "$1"
      }
    },
    "customToolkitSettings": {"commandLine": "cat /version; echo \$IMAGE_COLOUR"}
  }
}
JSON
}

credentials() {
    echo "\"serverUrl\": \"https://$closed\", \"credentials\": {\"username\": \"ada\", \"password\": \"$1\"},"
}

# Breaks when two hosts import at once, or one of them does not wait for the other.
@test "four hosts that pull one image at once import it once" {
    empty_cache
    local host layer before after
    layer=$(as_user skopeo inspect --tls-verify=false "docker://$open/tests/tiny:v1" |
        jq -r '.Layers[-1]')
    layer_reads() { grep -c "GET /v2/tests/tiny/blobs/$layer" "$BATS_FILE_TMPDIR/open.log" || true; }
    before=$(layer_reads)
    for host in h1 h2 h3 h4; do
        batchai_on "$host" image pull "$open/tests/tiny:v1" > "$BATS_TEST_TMPDIR/$host" 2>&1 3>&- &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
    cat "$BATS_TEST_TMPDIR"/h?
    after=$(layer_reads)
    [[ $(grep -l 'is imported' "$BATS_TEST_TMPDIR"/h? | wc -l) -eq 1 ]]
    [[ $((after - before)) -ge 1 && $(grep -c "pulling" "$BATS_TEST_TMPDIR"/h? | grep -vc ':0$') -eq 1 ]]
    lines_are 1 "$(entries)"
    nothing_is_left_of_imports
}

# Breaks when an image whose layers umoci cannot read fails on a node, after the job has waited for it.
@test "an image whose layers are packed with zstd runs" {
    empty_cache
    # skopeo changes the packing only on the way from one layout to another.
    as_user rm -rf "$home/zstd"
    as_user skopeo copy --quiet --dest-compress-format zstd "oci:$home/layout:v2" "oci:$home/zstd:v2"
    push "$home/zstd:v2" "$open/tests/tiny:zstd" --dest-tls-verify=false --preserve-digests
    [[ $(as_user skopeo inspect --raw --tls-verify=false "docker://$open/tests/tiny:zstd") == *tar+zstd* ]]
    job "$open/tests/tiny:zstd"
    batchai job create --name zstd --config-file "$home/job.json" --output none
    batchai job wait --name zstd
    [[ $(batchai job logs zstd) == *two*blue* ]]
    nothing_is_left_of_imports
}

# Breaks when what is not an image is found out only on the node.
@test "an artifact that is not an image is refused at submission" {
    as_user cp -rT "$home/layout" "$home/artifact"
    as_user bash -c '
        set -e
        cd "$1"
        digest=$(jq -r ".manifests[] | select(.annotations[\"org.opencontainers.image.ref.name\"] == \"v2\").digest" index.json)
        jq -c ".config.mediaType = \"application/vnd.cncf.helm.config.v1+json\"" "blobs/sha256/${digest#*:}" > manifest
        new=$(sha256sum < manifest | cut -d " " -f 1)
        size=$(stat -c %s manifest)
        mv manifest "blobs/sha256/$new"
        jq -c ".manifests = [.manifests[] | .digest = \"sha256:$new\" | .size = $size][-1:]" index.json > index
        mv index index.json' - "$home/artifact"
    job "oci:$home/artifact:v2"
    run batchai job create --name artifact --config-file "$home/job.json" --output none
    echo "$output"
    [[ $status -ne 0 ]]
    [[ $output == *'is not a container image but an artifact of type "application/vnd.cncf.helm.config.v1+json"'* ]]
    run -5 batchai job show --name artifact
}

# Breaks when a warm image is asked for again, or the list lacks what is there.
@test "image list, rm and prune show and remove what was pulled" {
    empty_cache
    batchai image pull "$open/tests/tiny:v1" "oci:$home/layout:v2" -o none
    run batchai image list -o table
    echo "$output"
    [[ $output == *"$open/tests/tiny:v1"*sha256:*MiB*no*no* ]]
    run batchai image list --query 'length([?size > `1000`])' -o tsv
    [[ $output == 2 ]]
    run -2 batchai image rm "$open/tests/tiny:v1" < /dev/null
    [[ $output == *"add --yes"* ]]
    batchai image rm "docker://$open/tests/tiny:v1" --yes
    lines_are 1 "$(entries)"
    run -5 batchai image rm "$open/tests/tiny:v1" --yes
    # An empty name means no image, not even one whose name is not known.
    as_user find "$home/records/images" -maxdepth 1 -name '*.json' -delete
    run ! batchai image rm "" --yes
    lines_are 1 "$(entries)"
    batchai image prune --unused-for 1 --yes
    lines_are 1 "$(entries)"
    batchai image prune --yes
    prints_nothing entries
}

# Breaks when faults look alike, or do not say what was asked and with whose credentials.
@test "each way in which a registry fails has its own message" {
    run -5 batchai image pull "$open/tests/tiny:v9"
    [[ $output == *"$open/tests/tiny:v9: $open has no such image"* ]]
    run -1 batchai image pull login:5001/tests/tiny:v1
    [[ $output == *"login:5001 cannot be reached from this host"*"connection refused"* ]]
    run -4 batchai image pull "$closed/tests/tiny:v1"
    [[ $output == *"no credentials for it were found"*"docker login $closed"* ]]
    run -1 batchai image pull nowhere.invalid/tiny
    [[ $output == *"nowhere.invalid cannot be reached"* ]]
    site_lua <<< 'return {}' | as_user bash -c "cat > $home/site.lua"
    run -1 batchai image pull "$open/tests/tiny:v1"
    [[ $output == *"$open does not use TLS"*insecure_registries* ]]
    run -2 batchai image pull nvcr.io#nvidia/x
    [[ $output == *'write "nvcr.io/nvidia/x"'* ]]
}

# Breaks when a fault of the file has no place, or is found only by the job.
@test "a wrong tag is a fault at its line of the job file" {
    wait_until 60 nothing_is_queued
    job "$open/tests/tiny:v9"
    run -3 batchai job create -f "$home/job.json"
    echo "$output"
    [[ $output == *"job.json:8:18: error"*"$open has no such image"* ]]
    nothing_is_queued
}

# Breaks when a password is in a message, in the records that are shown, or in an argument.
@test "a wrong password is said with where it came from, a right one stays hidden" {
    job tests/tiny:v1 "$(credentials 'wrong 1')"
    run -3 batchai job create -f "$home/job.json"
    echo "$output"
    [[ $output == *"refuses the credentials from containerSettings"*"user ada"* ]]
    [[ $output != *"wrong 1"* ]]
    job tests/tiny:v1 "$(credentials 'opensesame 7')"
    run -0 batchai job create -f "$home/job.json" --name hidden --output none
    [[ $output != *opensesame* ]]
    as_user grep -rq "docker://$closed/tests/tiny@sha256:" "$home/records" --include=plan.json
    batchai job wait --name hidden || true
}

# Breaks when docker's own configuration, or a helper that it names, is not asked.
@test "credentials of docker login and of credential helpers are taken" {
    local auth
    auth=$(printf 'ada:opensesame 7' | base64)
    as_user mkdir -p /home/alice/.docker "$home/bin"
    as_user bash -c "cat > /home/alice/.docker/config.json" <<< \
        "{\"auths\": {\"$closed\": {\"auth\": \"$auth\"}}}"
    batchai image pull "$closed/tests/tiny:v1" -o none
    as_user bash -c "cat > $home/bin/docker-credential-test && chmod 755 $home/bin/docker-credential-test" << 'SH'
#!/bin/sh
[ "$1" = get ] && echo '{"Username": "ada", "Secret": "opensesame 7"}'
SH
    for key in '"credHelpers": {"login:5443": "test"}' '"credsStore": "test"'; do
        empty_cache
        as_user bash -c "cat > /home/alice/.docker/config.json" <<< "{$key}"
        as_user env "PATH=$home/bin:/usr/bin:/bin" "BATCHAI_SITE=$home/site.lua" \
            "BATCHAI_HOME=$home/records" "$PREFIX/bin/batchai" image pull "$closed/tests/tiny:v1" -o none
        lines_are 1 "$(entries)"
    done
}

# Breaks when a job runs what its tag means when it starts, not when it was submitted.
@test "a tag that moves between submission and start does not change the job" {
    local blocker
    empty_cache
    push "$home/layout:v1" "$open/tests/moving:now" --dest-tls-verify=false
    blocker=$(as_user sbatch --parsable -N4 --exclusive -o /dev/null --wrap 'sleep 600')
    wait_until 60 job_is_running "$blocker"
    job "$open/tests/moving:now"
    batchai job create -f "$home/job.json" -n moving -o none
    push "$home/layout:v2" "$open/tests/moving:now" --dest-tls-verify=false
    as_user scancel "$blocker"
    run -0 batchai job wait -n moving
    as_user bash -c "cat $home/records/groups/*/workspaces/*/experiments/*/jobs/moving/attempts/1.json" |
        jq -e '.phases | map(select(.name == "image" and .exitCode == 0)) | length == 1'
    lines_are 1 "$(entries)"
    run as_user bash -c "cat $home/out/*/*/workspaces/*/experiments/*/jobs/moving/*/stdouterr/stdout.txt"
    [[ $output == $'one\nblue' ]]
}

job_is_running() { [[ $(as_user squeue -h -j "$1" -o %T) == RUNNING ]]; }

# Breaks when the image is not available at the job's start and the job does not say so.
@test "an image that is gone at the job's start fails the job with its reason" {
    local blocker
    empty_cache
    as_user cp -r "$home/layout" "$home/passing"
    job "oci:$home/passing:v1"
    blocker=$(as_user sbatch --parsable -N4 --exclusive -o /dev/null --wrap 'sleep 600')
    wait_until 60 job_is_running "$blocker"
    batchai job create -f "$home/job.json" -n passing -o none
    as_user rm -rf "$home/passing"
    as_user scancel "$blocker"
    run -1 batchai job wait -n passing
    echo "$output"
    run batchai job show -n passing --query 'executionInfo.errors[0]'
    echo "$output"
    [[ $output == *FailedStartingContainer*passing* ]]
    [[ $(as_user sinfo -h -N -t drain,drained,down -o %N) == "" ]]
}

# Breaks when the hand-over leaves the import to the nodes, or an option is lost on the way.
@test "srun --job-json has the image imported before it asks for nodes" {
    empty_cache
    job "$open/tests/tiny:v1"
    as_user env "BATCHAI_SITE=$home/site.lua" "BATCHAI_HOME=$home/records" \
        srun --job-json="$home/job.json" --job-image="oci:$home/layout:v2" cat /version \
        > "$BATS_TEST_TMPDIR/version"
    grep -q -x two "$BATS_TEST_TMPDIR/version"
    lines_are 1 "$(entries)"
    run as_user env "BATCHAI_SITE=$home/site.lua" srun --job-image=x true
    [[ $status -ne 0 && $output == *"--job-image works only together with --job-json"* ]]
}

# Breaks when a plan does not show the container, or the options do not change it.
@test "--dry-run shows the container; --job-image and --ignore-container change it" {
    job "$open/tests/tiny:v1"
    as_user sed -i 's|"containerSettings": {|&"shmSize": "64m",|' "$home/job.json"
    run -0 --separate-stderr batchai job create -f "$home/job.json" --dry-run
    container=$(sed '/^}/q' <<< "$output" | jq .container)
    [[ $(jq -r .shmBytes <<< "$container") == $((64 << 20)) ]]
    # A registry is asked at submission only.
    [[ $(jq -r .digest <<< "$container") == "resolved at submission" ]]
    run -0 --separate-stderr batchai job create -f "$home/job.json" --dry-run \
        --job-image "oci:$home/layout:v2"
    [[ $(sed '/^}/q' <<< "$output" | jq -r .container.source) == "oci:$home/layout:v2" ]]
    run -2 batchai job create -f "$home/job.json" --dry-run --job-image https://x
    [[ $output == *"--job-image"*'write "x"'* ]]
    run -0 --separate-stderr batchai job create -f "$home/job.json" --dry-run --ignore-container
    [[ $(sed '/^}/q' <<< "$output" | jq .container) == null ]]
}

# Breaks when others can put an image where ours are looked for.
@test "a cache that others can write to, or own, is refused with its path" {
    as_root_on login install -d -m 1777 /shared/imagecache
    as_user mkdir -p /shared/imagecache/alice
    as_user chmod 777 /shared/imagecache/alice
    site 'image_directory = "/shared/imagecache/%u",'
    run -4 batchai image pull "oci:$home/layout:v2"
    [[ $output == *"/shared/imagecache/alice"*"can be written to by others"*"chmod go-w"* ]]
    as_user rmdir /shared/imagecache/alice
    "$MINICLUSTER" exec --user bob -- mkdir /shared/imagecache/alice
    run -4 batchai image pull "oci:$home/layout:v2"
    [[ $output == *"/shared/imagecache/alice"*"belongs to user 20002"* ]]
    as_root_on login rm -rf /shared/imagecache
}

# Breaks when an import that ends early leaves its files, or stands in the way of the next.
@test "an interrupted import leaves nothing, a killed one is collected by prune and by the next" {
    local end
    empty_cache
    # Else an import may be over before it is interrupted.
    as_user mkdir -p "$home/slow"
    as_user bash -c "cat > $home/slow/umoci && chmod 755 $home/slow/umoci" << 'SH'
#!/bin/sh
exec sleep 317
SH
    for end in INT prune next; do
        as_user bash -c 'echo $$ > "$1/importer"; shift; exec env "$@"' - "$home" \
            "PATH=$home/slow:/usr/bin:/bin" \
            "BATCHAI_SITE=$home/site.lua" "BATCHAI_HOME=$home/records" \
            "$PREFIX/bin/batchai" image pull "$open/tests/tiny:v1" > /dev/null 2>&1 3>&- &
        wait_until 60 import_is_under_way
        as_root_on login bash -c 'kill "-$1" "$(cat "$2")"' - "${end/#[a-z]*/KILL}" "$home/importer"
        wait $! || true
        # Nobody has ended what the killed command had started.
        as_user pkill -u alice -fx 'sleep 317' || true
        if [[ $end == prune ]]; then
            run -0 batchai image prune --yes
            [[ $output == *"what ended imports had left is removed, "*" MiB are free again"* ]]
        fi
        [[ $end == next ]] || nothing_is_left_of_imports
    done
    prints_nothing entries
    batchai image pull "$open/tests/tiny:v1" -o none
    nothing_is_left_of_imports
}

import_is_under_way() { as_user bash -c "ls -d $home/records/images/.import/*/" > /dev/null 2>&1; }

# Breaks when an image can reach out of its bundle, or bring a device or a set-user-id program.
@test "a hostile image changes nothing outside and brings no privilege" {
    empty_cache
    as_user python3 - "$home/evil.tar" << 'PYTHON'
import io, sys, tarfile
tar = tarfile.open(sys.argv[1], "w")
def add(name, kind=tarfile.REGTYPE, mode=0o644, link="", data=b""):
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname, entry.size = kind, mode, link, len(data)
    entry.devmajor = entry.devminor = 1
    tar.addfile(entry, io.BytesIO(data))
add("bin", tarfile.DIRTYPE, 0o755)
add("bin/su", mode=0o6755, data=b"#!/bin/sh\n")
add("dev", tarfile.DIRTYPE, 0o755)
add("dev/kmem", tarfile.CHRTYPE, 0o666)
add("etc", tarfile.SYMTYPE, link="/home/alice/images/outside")
add("etc/passwd", data=b"root::0:0::/:/bin/sh\n")
add("up", tarfile.SYMTYPE, link="../../../../../../../../home/alice/images/outside")
add("up/passwd", data=b"evil")
add("../../../../../../home/alice/images/outside/dots", data=b"evil")
add("closed", tarfile.DIRTYPE, 0o000)
add("secret", mode=0o000, data=b"hidden")
tar.close()
PYTHON
    as_user mkdir -p "$home/outside"
    as_user umoci init --layout "$home/evil"
    as_user umoci new --image "$home/evil:x"
    as_user umoci raw add-layer --image "$home/evil:x" "$home/evil.tar"
    run batchai image pull "oci:$home/evil:x"
    echo "$output"
    prints_nothing as_user ls -A "$home/outside"
    nothing_is_left_of_imports
    if ((status == 0)); then
        run as_user unsquashfs -lls "$(entries)"
        echo "$output"
        [[ $output != *rws* && $output != *rwS* && $output != *$'\nc'* && $output != *$'\nb'* ]]
    fi
}

# Breaks when what such an image has unpacked stays, or its names fill the terminal.
@test "an image that is too deep, too large or has too long a name leaves nothing" {
    local kind left
    empty_cache
    as_user python3 - "$home" << 'PYTHON'
import io, sys, tarfile
def layer(name, *entries):
    with tarfile.open(f"{sys.argv[1]}/{name}.tar", "w") as tar:
        for path, kind, link, size in entries:
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname, entry.size, entry.mode = kind, link, size, 0o755
            tar.addfile(entry, io.BytesIO(bytes(size)))
layer("deep", *(("/".join("d" * depth), tarfile.DIRTYPE, "", 0) for depth in range(1, 701)))
layer("long", ("link\x1b[31m", tarfile.SYMTYPE, "a" * 5000, 0))
layer("large", ("zeros", tarfile.REGTYPE, "", 64 << 20))
PYTHON
    for kind in deep long large; do
        as_user umoci init --layout "$home/$kind"
        as_user umoci new --image "$home/$kind:x"
        as_user umoci raw add-layer --image "$home/$kind:x" "$home/$kind.tar"
    done
    for kind in deep long; do
        run -1 batchai image pull "oci:$home/$kind:x"
        [[ ${#output} -lt 1500 && $output != *$'\e'* ]]
        nothing_is_left_of_imports
    done
    as_root_on login install -d /shared/imagecache
    as_root_on login mount -t tmpfs -o size=16m,uid=20001,mode=700 tmpfs /shared/imagecache
    site 'image_directory = "/shared/imagecache",'
    run batchai image pull "oci:$home/large:x"
    left=$(as_user find /shared/imagecache/.import -mindepth 1)
    as_root_on login umount /shared/imagecache
    [[ $status == 1 && $left == "" ]]
    [[ $output == *"no space is left in /shared/imagecache"* ]]
}

# Breaks when a registry can fill the disk by a layer that is larger than it says.
@test "a registry that sends without end is left" {
    local server left
    as_user bash -c "cat > $home/endless.py" << 'PYTHON'
import hashlib, http.server, json
config = json.dumps({"os": "linux", "architecture": "amd64", "config": {},
                     "rootfs": {"type": "layers", "diff_ids": ["sha256:" + "a" * 64]}}).encode()
def blob(kind, digest, size):
    return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest, "size": size}
digest = hashlib.sha256(config).hexdigest()
manifest = json.dumps({
    "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "config": blob("config.v1+json", digest, len(config)),
    "layers": [blob("layer.v1.tar+gzip", "a" * 64, 1000)]}).encode()
class Registry(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        if "/manifests/" in self.path:
            self.send_header("Content-Type", "application/vnd.oci.image.manifest.v1+json")
        self.end_headers()
        if self.path.endswith("/blobs/sha256:" + "a" * 64):
            while True:
                self.wfile.write(bytes(1 << 20))
        self.wfile.write(manifest if "/manifests/" in self.path else
                         config if self.path.endswith(digest) else b"{}")
http.server.ThreadingHTTPServer(("", 5002), Registry).serve_forever()
PYTHON
    as_user python3 "$home/endless.py" > /dev/null 2>&1 3>&- &
    server=$!
    wait_until 60 as_user bash -c 'exec 9<> /dev/tcp/127.0.0.1/5002'
    as_root_on login install -d /shared/imagecache
    as_root_on login mount -t tmpfs -o size=512m,uid=20001,mode=700 tmpfs /shared/imagecache
    site_lua <<< 'return { insecure_registries = { "login:5002" }, image_directory = "/shared/imagecache" }' |
        as_user bash -c "cat > $home/site.lua"
    run batchai image pull login:5002/endless:x
    as_user pkill -u alice -f "^python3 $home/endless.py"
    wait "$server" || true
    left=$(as_user find /shared/imagecache/.import -mindepth 1)
    as_root_on login umount /shared/imagecache
    echo "$output"
    [[ $status == 4 && $output == *"its source sends more than the 1000 B that its manifest says"* ]]
    [[ $left == "" ]]
}

# Breaks when an import begins that cannot end, and fills the file system on its way.
@test "an import for which there is no room does not begin, and says the numbers" {
    as_root_on login install -d /shared/imagecache
    as_root_on login mount -t tmpfs -o size=8m,uid=20001,mode=700 tmpfs /shared/imagecache
    site 'image_directory = "/shared/imagecache",'
    run -1 batchai image pull "$open/tests/tiny:v1"
    echo "$output"
    as_root_on login umount /shared/imagecache
    [[ $output == *"takes about "*" MiB in /shared/imagecache, where "*" MiB are free"* ]]
    [[ $output == *"image prune"* && $output != *pulling* ]]
}

# Breaks when the admin's images are not found first.
@test "the shared directory is looked at first" {
    empty_cache
    as_root_on login install -d -m 755 /shared/imagecache
    site "shared_image_directory = \"/shared/imagecache\","
    as_root_on login env "BATCHAI_SITE=$home/site.lua" BATCHAI_HOME=/root/.batchai-test \
        "$PREFIX/bin/batchai" image pull --shared "oci:$home/layout:v2" -o none
    run batchai image pull "oci:$home/layout:v2"
    [[ $output == *"is already imported"*'"shared": true'* ]]
    prints_nothing entries
    # Breaks when root learns nothing of those whose jobs it does not know.
    run as_root_on login env "BATCHAI_SITE=$home/site.lua" BATCHAI_HOME=/root/.batchai-test \
        "$PREFIX/bin/batchai" image prune --shared --yes -o none
    [[ $status == 0 && $output == *"whether jobs of other users use these images is not known"* ]]
    as_root_on login rm -rf /shared/imagecache /root/.batchai-test
}
