#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Bob takes the port that alice's ranks are told to meet at, before one of them listens on it.

bats_require_minimum_version 1.5.0
load ../integration/lib

share=/shared/attacks-master-port

setup() {
    wait_until 60 nodes_idle 4
    as_root_on login install -d -m 1777 "$share"
    as_user bash -c "cat > $share/job.json" << 'JSON'
{"properties": {"nodeCount": 2, "stdOutErrPathPrefix": "/tmp",
                "customMpiSettings": {"processCount": 2, "commandLine": "true"}}}
JSON
    # The first rank tells its port and waits until bob has it.
    as_user bash -c "cat > $share/ranks.py" << 'PYTHON'
import os, sys, time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

if sys.argv[1] == "with-the-package":
    import mpi_bridge.torch_distributed

share = Path(sys.argv[2])
if os.environ["RANK"] == "0":
    (share / "port.new").write_text(os.environ["MASTER_PORT"])
    (share / "port.new").rename(share / "port")
for _ in range(1200):
    if (share / "taken").exists():
        break
    time.sleep(0.1)
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item()}", flush=True)
dist.destroy_process_group()  # or Gloo's threads may outlive the interpreter, which aborts it
PYTHON
    as_bob bash -c "cat > $share/listen.pl" << 'PERL'
use IO::Socket::INET;
my ($share) = @ARGV;
for (1 .. 1200) { last if -e "$share/port"; select(undef, undef, undef, 0.1) }
open(my $file, "<", "$share/port") or die;
my $socket = IO::Socket::INET->new(LocalPort => <$file>, Listen => 16, ReuseAddr => 1) or die $@;
open(my $taken, ">", "$share/taken") or die;
close $taken;
while (my $one = $socket->accept) { open(my $came, ">", "$share/came") or die; push @kept, $one }
PERL
}

teardown() {
    as_root_on h1 bash -c 'pkill -KILL -u bob; true'
    as_root_on login bash -c 'squeue -h -o %i | xargs -r scancel'
    as_root_on login rm -rf "$share"
    wait_until 60 nodes_idle 4
}

# alices_ranks HOW [MPI]: with bob on the first host, as long as they run.
alices_ranks() {
    "$MINICLUSTER" exec --user bob --host h1 -- perl "$share/listen.pl" "$share" &
    run as_user env OMP_NUM_THREADS=1 PYTHONPATH="$PREFIX/lib/batchai/python" \
        srun -N2 -w h1,h2 --kill-on-bad-exit=1 --mpi="${2:-$(slurm_mpi)}" --job-json="$share/job.json" \
        "$PYTHON" "$share/ranks.py" "$1" "$share"
    echo "$output"
    as_root_on login test -e "$share/taken"
}

# Breaks when ranks that load the package meet at a port that anybody could have taken.
nobody_came() {
    [[ $status -eq 0 ]]
    [[ $output == *"rank 0 of 2: 3.0"* && $output == *"rank 1 of 2: 3.0"* ]]
    as_root_on login test ! -e "$share/came"
}

@test "bob cannot meet alice's ranks by listening on their MASTER_PORT" {
    alices_ranks with-the-package
    nobody_came
}

@test "nor does PMI-2 lead them to it" {
    alices_ranks with-the-package pmi2
    nobody_came
}

# The attack is a real one: torch alone cannot be protected, as docs/security.md says.
@test "ranks that do not load the package lose MASTER_PORT to bob" {
    alices_ranks without
    [[ $status -ne 0 && $output == *EADDRINUSE* ]]
}

# Breaks when nobody tells a user who shares the nodes, or everybody is told.
@test "the execution log says when other users could take MASTER_PORT" {
    local exclusive
    make_home attacks-master-port
    for exclusive in false true; do
        write_home site.lua <<< "return { exclusive = $exclusive }"
        write_home "job-$exclusive.json" << JSON
{"properties": {"nodeCount": 2, "stdOutErrPathPrefix": "$HOME_DIR/logs",
                "customMpiSettings": {"processCount": 2, "commandLine": "true"}}}
JSON
        batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" job create --name "job-$exclusive" \
            --config-file "job-$exclusive.json" --output none
        batchai job wait --name "job-$exclusive"
        run -0 output_of "job-$exclusive" execution-h1.log
        echo "$output"
        [[ $exclusive == false ]] && [[ $output == *"could listen on MASTER_PORT"* ]] ||
            [[ $exclusive == true && $output != *MASTER_PORT* ]]
    done
    remove_home
}
