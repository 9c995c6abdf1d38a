/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The protocol between batchai.so (inside slurmstepd) and batchai-node (a process of the user's).
 * Both are installed together; the version number reveals a mixed installation.
 *
 *   batchai.so, user_init:  forks; the child drops to the user and execs
 *                           batchai-node sandbox --plan PATH --digest HEX --job-id N
 *                               [--rendezvous STEP --node N --nodes N | --master ADDRESS] [--root]
 *                               [--array-task N] [--submit-directory PATH] [--slurm-conf PATH]
 *                               [--usage STEP --step N] [--starts STEP --tasks N]
 *   batchai-node:           builds the sandbox, writes the reply, writes one byte to READY, and
 *                           keeps its namespaces alive until CONTROL ends
 *   batchai.so, task_init:  as the user: waits for the byte or the end of READY, reads the reply,
 *                           and joins the namespaces; writes BATCHAI_CONTROL_STARTED to CONTROL;
 *                           the first task of the node may write BATCHAI_CONTROL_NCCL
 *   batchai.so, task_exit:  closes its end of CONTROL, waits a few seconds for batchai-node to end,
 *                           and then kills it
 */

#include <stdint.h>

#define BATCHAI_PROTOCOL_MAGIC 0x49414342u /* "BCAI", little endian */
#define BATCHAI_PROTOCOL_VERSION 6u

/* How long batchai-node may wait at the end of a step for processes that continue without it. The
 * plugin waits longer (farewell_seconds in spank/child.hpp). */
#define BATCHAI_FAREWELL_SECONDS 4

/* The exit code of `batchai-node clean` if everything is removed but data of volumes that neither
 * their storage nor the job's directory has taken. It is kept on the node. */
#define BATCHAI_CLEAN_KEPT_DATA 90

/* The arguments that batchai.so takes in plugstack.conf. */
#define BATCHAI_PLUGSTACK_ARGUMENTS                                               \
    "launcher=PATH node_program=PATH node_directory=PATH runtime_directory=PATH " \
    "timeout=SECONDS"

/* The descriptors that batchai-node finds open. 0, 1 and 2 are open on /dev/null as well. */
#define BATCHAI_CONTROL_DESCRIPTOR 3 /* read end: remarks of tasks; ends when the step is over */
#define BATCHAI_READY_DESCRIPTOR 4   /* write end: one byte when the reply is complete */
#define BATCHAI_REPLY_DESCRIPTOR 5   /* a memfd for the reply */

/* A byte on CONTROL: the plugin has set NCCL_SOCKET_IFNAME in the tasks of this node. Only the
 * plugin knows which devices the tasks have, and only batchai-node can write to the job's log. */
#define BATCHAI_CONTROL_NCCL 'N'
/* A byte on CONTROL, and a uint32_t behind it: the task of this number has started, as far as the
 * plugin can tell: what Slurm still does is to execute its program. */
#define BATCHAI_CONTROL_STARTED 'S'

/* A longer reply is refused. */
#define BATCHAI_REPLY_LIMIT (1u << 20)
/* Paths longer than this are refused; digests are 64 lower-case hexadecimal digits. */
#define BATCHAI_PATH_LIMIT 4096u
#define BATCHAI_DIGEST_LENGTH 64u

/* Variables of the job's environment: the first two ask for a sandbox, the third turns it off. */
#define BATCHAI_PLAN_VARIABLE "BATCHAI_PLAN"
#define BATCHAI_DIGEST_VARIABLE "BATCHAI_PLAN_DIGEST"
#define BATCHAI_DISABLE_VARIABLE "BATCHAI_DISABLE"
/* In the environment of a job with a plan: which job this is, as "ID RESTARTS", or in a task of an
 * array job "ID RESTARTS TASK". The numbers are Slurm's own. What a job inherits from another one
 * it knows by the id: such a plan is not the job's. A plan without this variable has just been made
 * for the job. */
#define BATCHAI_SLURM_JOB_VARIABLE "BATCHAI_SLURM_JOB"
#define BATCHAI_SLURM_JOB_LIMIT 40u
/* Asks the epilog of the node where the batch script runs to clean up, although that script has no
 * sandbox. The script does not see it. */
#define BATCHAI_CLEAN_UP_VARIABLE "BATCHAI_CLEAN_UP"
/* What the plan was made from: the file of --job-json as an absolute path, and --job-image and
 * --ignore-container ("1") if they were given. */
#define BATCHAI_JOB_JSON_VARIABLE "BATCHAI_JOB_JSON"
#define BATCHAI_JOB_IMAGE_VARIABLE "BATCHAI_JOB_IMAGE"
#define BATCHAI_IGNORE_CONTAINER_VARIABLE "BATCHAI_IGNORE_CONTAINER"
/* Why --job-json is refused on a component of a heterogeneous job, at each door. */
#define BATCHAI_NO_HET_JOBS "heterogeneous jobs cannot have --job-json; submit a job of its own"
/* How the names of the variables begin by which Slurm passes the plugin's options on to the
 * commands that a job starts. salloc and srun use this name; batch scripts have it after
 * "SLURM_SPANK_". */
#define BATCHAI_OPTION_VARIABLE_PREFIX "_SLURM_SPANK_OPTION_batchai_"
/* Set by the command-line filter for the plugin in the same sbatch, srun or salloc, as
 * "PID DIGEST PATH\nDECLARATION": the file of --job-json has already been handed over. */
#define BATCHAI_HANDED_OVER_VARIABLE "BATCHAI_HANDED_OVER"
/* What job_submit.lua checks of a job: the plan's declaration, "vm_size=NAME image=NAME". The
 * plugin sends it with the options of the job (spank_job_control_setenv), or the word "disabled" if
 * BATCHAI_DISABLE leaves the job without a plan. The batch script of
 * `batchai job create` has it in a line that begins as the second name says. */
#define BATCHAI_DECLARATION_VARIABLE "BATCHAI_DECLARATION"
#define BATCHAI_DECLARATION_LINE "#BATCHAI "
/* A longer declaration is refused. */
#define BATCHAI_DECLARATION_LIMIT 8192u
/* The answer of `batchai hand-over`: a line each for PLAN, DIGEST and DECLARATION as NAME=value,
 * then one with this name for each variable of the user's that holds a secret of the job (the value
 * is the variable's name), and for the filter "--option=value" lines. Whoever submits the job
 * removes these variables from its environment first. */
#define BATCHAI_SECRET_LINE "BATCHAI_SECRET_VARIABLE"
/* In the environment of a job: these names, separated by commas. An srun in the job that is given
 * the job file again removes them as well, without reading the file. */
#define BATCHAI_SECRET_VARIABLES_VARIABLE "BATCHAI_SECRET_VARIABLES"
/* A longer answer is refused. */
#define BATCHAI_HAND_OVER_LIMIT 32768u
/* Set by the user. It is a secret, so no job's environment may contain it. */
#define BATCHAI_STORAGE_KEY_VARIABLE "AZURE_BATCHAI_STORAGE_KEY"
/* Set in every task that is in its sandbox, to the digest of the plan. */
#define BATCHAI_PROOF_VARIABLE "BATCHAI_SANDBOX"

/* Where the ranks meet, as "ADDRESS PORT". It comes from `batchai run` in the job's environment, or
 * else from batchai-node in its reply, if the plugin asked for it (--rendezvous). Tasks do not see
 * it. */
#define BATCHAI_MASTER_VARIABLE "BATCHAI_MASTER"
/* The interface for NCCL_SOCKET_IFNAME, from batchai-node in its reply. The plugin uses it in tasks
 * that have GPUs. Tasks do not see it. */
#define BATCHAI_NCCL_INTERFACE_VARIABLE "BATCHAI_NCCL_INTERFACE"
#define BATCHAI_INTERFACE_LIMIT 64u
/* The directory that comes first on PYTHONPATH, from batchai-node in its reply. Tasks do not see
 * this variable. */
#define BATCHAI_PYTHON_HOOK_VARIABLE "BATCHAI_PYTHON_HOOK"
#define BATCHAI_PYTHON_PATH_LIMIT 65536u
/* Which of RANK, MASTER_ADDR, … the plugin has set, as "NAME=value" entries separated by commas. A
 * variable that still has this value was not set by the user. In the environment of a step, "none"
 * says that its tasks are not ranks. */
#define BATCHAI_RANK_VARIABLES_VARIABLE "BATCHAI_RANK_VARIABLES"
#define BATCHAI_NO_RANKS "none"
#define BATCHAI_MASTER_LIMIT 512u
/* In the environment of a step of one task that looks at a rank of another step (`job shell
 * --rank`): the rank's RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK and
 * GROUP_WORLD_SIZE, as numbers separated by blanks. The task gets the variables of that rank. Tasks
 * do not see it. */
#define BATCHAI_AS_RANK_VARIABLE "BATCHAI_AS_RANK"
#define BATCHAI_AS_RANK_LIMIT 80u
#define BATCHAI_RANK_VARIABLES_LIMIT 2304u

/* Set by the plugin in the environment of batchai-node: which node of the step this is, as "NUMBER
 * COUNT LIST". The list is Slurm's expression for the nodes of the step, in their order. In a step
 * of several programs it has the nodes of all of them, while the numbers are those of one, so it
 * means nothing unless it has COUNT nodes. */
#define BATCHAI_NODE_VARIABLE "BATCHAI_NODE"
#define BATCHAI_NODE_LIST_LIMIT 65536u

/* Set by `batchai run` in the environment of a step to a PATH: the plugin writes to PATH.TASK.txt
 * why it did not let the task run. What the plugin prints is for people. */
#define BATCHAI_REFUSALS_VARIABLE "BATCHAI_REFUSALS"

/* Set by `batchai run` in the environment of a step: batchai-node notes what the step's tasks use,
 * in files with this name (record/usage.hpp). */
#define BATCHAI_USAGE_VARIABLE "BATCHAI_USAGE"
#define BATCHAI_USAGE_LIMIT 64u
/* And beside it, the job's SLURM_MEM_PER_NODE or SLURM_MEM_PER_CPU, in MiB. Steps do not get those:
 * srun would take them for what the step asks for. */
#define BATCHAI_MEM_PER_NODE_VARIABLE "BATCHAI_MEM_PER_NODE"
#define BATCHAI_MEM_PER_CPU_VARIABLE "BATCHAI_MEM_PER_CPU"

/* Set by `batchai run` in the environment of a step that has another working directory for Slurm
 * than for its tasks: the directory where the tasks start. Tasks do not see it. */
#define BATCHAI_DIRECTORY_VARIABLE "BATCHAI_STEP_DIRECTORY"

/* Set by `batchai run` in the environment of a step: batchai-node notes under this name which tasks
 * of the step have started (record/start_notes.hpp). Tasks do not see it, because steps that they
 * start have other tasks. */
#define BATCHAI_STARTS_VARIABLE "BATCHAI_STARTS"
#define BATCHAI_STARTS_LIMIT 64u

/* Set in the environment of a step whose tasks are root in the job's container (preparation). */
#define BATCHAI_IDENTITY_VARIABLE "BATCHAI_IDENTITY"
#define BATCHAI_IDENTITY_ROOT "root"

/* Set by `batchai run` for the ranks of an elastic job. */
#define BATCHAI_ELASTIC_DIRECTORY_VARIABLE "BATCHAI_ELASTIC_DIRECTORY"
#define BATCHAI_ELASTIC_START_VARIABLE "BATCHAI_ELASTIC_START"
#define BATCHAI_HOROVOD_ELASTIC_VARIABLE "HOROVOD_ELASTIC"
/* Set by `batchai run`: where each rank writes its first failure. */
#define BATCHAI_FAILURE_RECORD_VARIABLE "MPI_BRIDGE_FAILURE_RECORD"

/* What our parts set in a job's processes, for this job only. A job that is submitted from one of
 * these processes is a job of its own and gets none of it; neither does it get the variables that
 * begin with BATCHAI_AZURE_PREFIX or that BATCHAI_RANK_VARIABLES lists. */
#define BATCHAI_VARIABLES_OF_ONE_JOB                                                              \
    BATCHAI_PLAN_VARIABLE, BATCHAI_DIGEST_VARIABLE, BATCHAI_SLURM_JOB_VARIABLE,                   \
        BATCHAI_JOB_JSON_VARIABLE, BATCHAI_JOB_IMAGE_VARIABLE, BATCHAI_IGNORE_CONTAINER_VARIABLE, \
        BATCHAI_SECRET_VARIABLES_VARIABLE, BATCHAI_PROOF_VARIABLE, BATCHAI_MASTER_VARIABLE,       \
        BATCHAI_NCCL_INTERFACE_VARIABLE, BATCHAI_PYTHON_HOOK_VARIABLE,                            \
        BATCHAI_RANK_VARIABLES_VARIABLE, BATCHAI_AS_RANK_VARIABLE, BATCHAI_REFUSALS_VARIABLE,     \
        BATCHAI_USAGE_VARIABLE, BATCHAI_MEM_PER_NODE_VARIABLE, BATCHAI_MEM_PER_CPU_VARIABLE,      \
        BATCHAI_IDENTITY_VARIABLE, BATCHAI_ELASTIC_DIRECTORY_VARIABLE,                            \
        BATCHAI_ELASTIC_START_VARIABLE, BATCHAI_HOROVOD_ELASTIC_VARIABLE,                         \
        BATCHAI_FAILURE_RECORD_VARIABLE
#define BATCHAI_AZURE_PREFIX "AZ_BATCH"
/* An environment that has one of these is that of a job's process. */
#define BATCHAI_SIGNS_OF_A_JOB                                                 \
    BATCHAI_PLAN_VARIABLE, BATCHAI_PROOF_VARIABLE, BATCHAI_SLURM_JOB_VARIABLE, \
        BATCHAI_RANK_VARIABLES_VARIABLE

enum batchai_status {
    BATCHAI_STATUS_OK = 0,    /* `text`: where the task starts; empty: where Slurm put it */
    BATCHAI_STATUS_FAILED = 1 /* `text`: the reason */
};

/* A flag of the reply: the container has only one user id, and the task is root. Calls that change
 * ids or owners report success and do nothing. */
#define BATCHAI_REPLY_ONE_ID 1u

/* The reply consists of this header, text_length bytes of text, and environment_length bytes of
 * entries, each with a closing zero byte. "NAME=value" sets a variable, "NAME" removes one. */
struct batchai_reply_header {
    uint32_t magic;
    uint32_t version;
    uint32_t status;
    uint32_t flags;
    uint32_t text_length;
    uint32_t environment_length;
};
