#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Bob on the login host, and on the node, against the ports that alice forwards from her job; and
# programs that bob could have run as a check of alice's nodes.

bats_require_minimum_version 1.5.0
load ../integration/lib

setup() {
    wait_until 60 nodes_idle 4
    make_home "attacks-reach-$BATS_TEST_NUMBER"
    write_home job.json << JSON
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "$HOME_DIR/logs",
  "customToolkitSettings": {"commandLine": "touch $HOME_DIR/ready; printenv SLURMD_NODENAME > $HOME_DIR/node; until [ -e $HOME_DIR/end ]; do sleep 0.2; done"}}}
JSON
    as_user bash -c "echo alices-secret > $HOME_DIR/page"
}

teardown() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    as_root_on login rm -rf /etc/batchai/health-attack.d
    [[ ! -v server_host ]] || as_root_on "$server_host" sh -c 'kill "$(cat /tmp/bobs-server.pid)"; rm /tmp/bobs-server.pid'
    has_ipv6 1
    remove_home
}

start() {
    create job
    wait_until 60 as_user test -s "$HOME_DIR/node"
}
# in_background NAME WORDS…: alice's command, with its outputs in NAME.out and NAME.err.
in_background() {
    as_user bash -c 'cd "$1"
        BATCHAI_HOME=$1/records "$2" "${@:4}" < /dev/null > "$3.out" 2> "$3.err" 3>&- 4>&- &
        echo $! > "$3.pid"' background "$HOME_DIR" "$PREFIX/bin/batchai" "$@"
}
says() { as_user grep -qF -e "$2" "$HOME_DIR/$1"; }
port_of() { as_user sed -n 's/^127.0.0.1:\([0-9]*\) -> .*/\1/p' "$HOME_DIR/port.out"; }

# ask PORT: what a client gets that sends a request; run by alice or bob.
ask='import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
try:
    connection.sendall(b"GET /page HTTP/1.0\r\n\r\n")
    print(connection.makefile("rb").read().decode())
except ConnectionError:
    print("refused")'

# has_ipv6 DISABLED: turns IPv6 of the login host on (0) or off (1), as it is on the test cluster.
has_ipv6() { as_root_on login sh -c "echo $1 > /proc/sys/net/ipv6/conf/lo/disable_ipv6"; }

# Breaks when alice's browser goes to bob, who has the same number on the other loopback address.
@test "bob cannot wait on ::1 for what alice sends to localhost" {
    has_ipv6 0
    start
    server_host=login
    as_bob bash -c 'python3 -c "
import socket
server = socket.socket(socket.AF_INET6)
server.bind((\"::1\", 7107))
server.listen()
open(\"/tmp/bob-listens\", \"w\").close()
while True: server.accept()[0].close()" < /dev/null > /dev/null 2>&1 3>&- 4>&- & echo $! > /tmp/bobs-server.pid'
    wait_until 60 as_root_on login test -e /tmp/bob-listens
    as_root_on login rm /tmp/bob-listens
    run timeout 150 "$MINICLUSTER" exec -- bash -c 'cd "$1" && BATCHAI_HOME=$1/records "$2" job port job 7107:7106' \
        port "$HOME_DIR" "$PREFIX/bin/batchai"
    echo "$output"
    [[ $status -ne 0 && $status -ne 124 ]]
    [[ $output == *"cannot listen on port 7107 of this host: Address already in use"* ]]
}

@test "bob gets nothing through the port that alice forwards" {
    start
    in_background server job shell job -- python3 -m http.server --bind 127.0.0.1 --directory "$HOME_DIR" 7106
    in_background port job port job 0:7106
    wait_until 60 says port.err "can be used"
    run as_user python3 -c "$ask" "$(port_of)"
    echo "$output"
    [[ $output == *alices-secret* ]]
    run as_bob python3 -c "$ask" "$(port_of)"
    echo "$output"
    [[ $output != *alices-secret* && $output != *HTTP* ]]
    run as_root_on login python3 -c "$ask" "$(port_of)"
    [[ $output != *alices-secret* ]]
    # A connection that bob closes at once has no user any more, and is not taken for anybody's.
    as_bob python3 -c 'import socket, struct, sys
for _ in range(200):
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10)
    connection.sendall(b"GET /bob-was-here HTTP/1.0\r\n\r\n")
    connection.close()' "$(port_of)" || true
    wait_until 60 says port.err "was refused"
    run as_user cat "$HOME_DIR/server.err" "$HOME_DIR/server.out"
    echo "$output"
    [[ $output == */page* && $output != *bob-was-here* ]]
    # Alice's own still work.
    run as_user python3 -c "$ask" "$(port_of)"
    [[ $output == *alices-secret* ]]
    as_user kill "$(as_user cat "$HOME_DIR/port.pid")" "$(as_user cat "$HOME_DIR/server.pid")"
}

@test "alice is not led to a server of bob's on the node" {
    start
    server_host=$(as_user cat "$HOME_DIR/node")
    "$MINICLUSTER" exec --user bob --host "$server_host" -- sh -c 'cd /tmp
        setsid python3 -m http.server --bind 127.0.0.1 7107 < /dev/null > /dev/null 2>&1 3>&- 4>&- &
        echo $! > /tmp/bobs-server.pid'
    wait_until 60 as_root_on "$server_host" python3 -c 'import socket; socket.create_connection(("127.0.0.1", 7107))'
    in_background port job port job 0:7107
    wait_until 60 says port.err "belongs to another user"
    run as_user python3 -c "$ask" "$(port_of)"
    echo "$output"
    [[ $output != *HTTP* ]]
    as_user kill "$(as_user cat "$HOME_DIR/port.pid")"
}

slurm_log() { as_user find "$HOME_DIR/records" -name slurm.log -exec cat {} +; }
# alices_job_runs: and none of bob's programs does.
alices_job_runs() {
    write_home site.lua <<< 'return { health = { directory = "/etc/batchai/health-attack.d" } }'
    as_user touch "$HOME_DIR/end"
    batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" job create --name job --config-file job.json --output none
    batchai job wait --name job
    prints_nothing as_root_on login find /shared -maxdepth 1 -name bob-ran-this
}

# Breaks when somebody else can ask a job's processes where they are, or read what they say.
@test "bob learns nothing of where alice's ranks are" {
    write_home rank.py << PYTHON
import os, time
def alices_secret_place():
    with open("$HOME_DIR/at", "w") as file:
        file.write(f"{os.environ['SLURM_JOB_ID']} {os.environ['SLURMD_NODENAME']} {os.getpid()}")
    time.sleep(3000)
alices_secret_place()
PYTHON
    write_mpi_job job.json 1 "exec /usr/bin/python3 $HOME_DIR/rank.py"
    create job
    wait_until 60 as_user test -s "$HOME_DIR/at"
    local id node process
    read -r id node process < <(as_user cat "$HOME_DIR/at"; echo)
    run -0 batchai job stacks job
    [[ $output == *alices_secret_place* ]]
    # By her records, by Slurm, by our program on the node, and by what that program uses.
    run as_bob env "BATCHAI_HOME=$HOME_DIR/records" "$PREFIX/bin/batchai" job stacks job
    [[ $status -ne 0 && $output != *alices_secret_place* ]]
    run as_bob srun --overlap --jobid="$id" "$PREFIX/libexec/batchai/batchai-node" stacks --job-id="$id"
    [[ $status -ne 0 && $output != *alices_secret_place* ]]
    run "$MINICLUSTER" exec --user bob --host "$node" -- env SLURM_STEP_ID=9 "$PREFIX/libexec/batchai/batchai-node" stacks --job-id="$id"
    [[ $output != *alices_secret_place* && $output != *rank.py* ]]
    # She herself could: the descriptor and the signal are the right ones.
    run -0 as_user_on "$node" head -n 1 "/proc/$process/fd/200"
    [[ $output == "batchai-stacks 1 $process 200 63" ]]
    run "$MINICLUSTER" exec --user bob --host "$node" -- head -n 1 "/proc/$process/fd/200"
    [[ $status -ne 0 && $output != *batchai-stacks* ]]
    run "$MINICLUSTER" exec --user bob --host "$node" -- kill -63 "$process"
    [[ $status -ne 0 ]]
    run -0 batchai job show --name job --query executionState --output tsv
    [[ $output == running ]]
}

@test "a directory of checks to which bob can write is refused" {
    as_root_on login install -d -m 777 /etc/batchai/health-attack.d
    as_bob sh -c 'printf "#!/bin/sh\ntouch /shared/bob-ran-this\n" > /etc/batchai/health-attack.d/check; chmod 755 /etc/batchai/health-attack.d/check'
    alices_job_runs
    run slurm_log
    echo "$output"
    [[ $output == *"was not checked: /etc/batchai/health-attack.d can be written to by others"* ]]
}

@test "a check that bob can change, or that is his, is not run" {
    as_root_on login install -d -m 755 /etc/batchai/health-attack.d
    as_root_on login sh -c 'cd /etc/batchai/health-attack.d && printf "#!/bin/sh\ntouch /shared/bob-ran-this\n" > a &&
        cp a b && chmod 777 a && chmod 755 b && chown bob b'
    as_bob sh -c 'mkdir -p /tmp/bobs && printf "#!/bin/sh\ntouch /shared/bob-ran-this\n" > /tmp/bobs/c && chmod 755 /tmp/bobs/c'
    as_root_on login ln -s /tmp/bobs/c /etc/batchai/health-attack.d/c
    alices_job_runs
    run slurm_log
    echo "$output"
    [[ $output == *"health check a could not be run: is not run: /etc/batchai/health-attack.d/a can be written to by others"* ]]
    [[ $output == *"health check b could not be run: is not run:"*"belongs to user"* ]]
    as_bob rm -r /tmp/bobs
}
