/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * What batchai.so (inside slurmstepd) and batchai-node (a process of the user) say to each other.
 * Both are installed together; the version is there to catch a mixed installation.
 *
 *   batchai.so, user_init:  forks; the child drops to the user and execs
 *                           batchai-node sandbox --plan PATH --digest HEX --job-id N
 *                               [--rendezvous STEP --node N --nodes N] [--root]
 *                               [--array-task N] [--submit-directory PATH] [--slurm-conf PATH]
 *   batchai-node:           builds the sandbox, writes the reply, writes one byte to READY, and
 *                           stays, as the anchor of its namespaces, until CONTROL ends
 *   batchai.so, task_init:  as the user: waits for the byte or the end of READY, reads the reply,
 *                           joins the namespaces
 *   batchai.so, task_exit:  closes its end of CONTROL, waits for batchai-node's end for a few
 *                           seconds, and kills it then
 */

#include <stdint.h>

#define BATCHAI_PROTOCOL_MAGIC 0x49414342u /* "BCAI", little endian */
#define BATCHAI_PROTOCOL_VERSION 3u

/* For how long batchai-node may wait, at a step's end, for what goes on without it; the plugin's
 * own patience is longer (farewell_seconds in spank/child.hpp). */
#define BATCHAI_FAREWELL_SECONDS 4

/* Descriptors that batchai-node finds open, besides 0, 1 and 2 on /dev/null. */
#define BATCHAI_CONTROL_DESCRIPTOR 3 /* read end: ends when the step is over */
#define BATCHAI_READY_DESCRIPTOR 4   /* write end: one byte when the reply is complete */
#define BATCHAI_REPLY_DESCRIPTOR 5   /* a memfd for the reply */

/* A longer reply is refused. */
#define BATCHAI_REPLY_LIMIT (1u << 20)
/* Paths longer than this are refused; digests are 64 lower-case hexadecimal digits. */
#define BATCHAI_PATH_LIMIT 4096u
#define BATCHAI_DIGEST_LENGTH 64u

/* The variables of the job's environment that ask for a sandbox, and the proof that it is there. */
#define BATCHAI_PLAN_VARIABLE "BATCHAI_PLAN"
#define BATCHAI_DIGEST_VARIABLE "BATCHAI_PLAN_DIGEST"
#define BATCHAI_DISABLE_VARIABLE "BATCHAI_DISABLE"
/* From the command-line filter to the plugin in the same sbatch, srun or salloc, "PID DIGEST PATH":
 * the file of --job-json has been handed over already. */
#define BATCHAI_HANDED_OVER_VARIABLE "BATCHAI_HANDED_OVER"
/* The user's, with a secret that no job's environment is to hold. */
#define BATCHAI_STORAGE_KEY_VARIABLE "AZURE_BATCHAI_STORAGE_KEY"
#define BATCHAI_PROOF_VARIABLE "BATCHAI_SANDBOX"

/* Where the ranks meet, "ADDRESS PORT": from `batchai run` in the job's environment, else from
 * batchai-node in its reply, which the plugin asks for then (--rendezvous). Tasks do not see it. */
#define BATCHAI_MASTER_VARIABLE "BATCHAI_MASTER"
/* Which of RANK, MASTER_ADDR, … the plugin has set, "NAME=value" separated by commas: what still
 * has that value is not the user's. "none" in the environment of a step: its tasks are no ranks. */
#define BATCHAI_RANK_VARIABLES_VARIABLE "BATCHAI_RANK_VARIABLES"
#define BATCHAI_NO_RANKS "none"
#define BATCHAI_MASTER_LIMIT 512u
#define BATCHAI_RANK_VARIABLES_LIMIT 2048u

/* From `batchai run` in the environment of a step: where the plugin writes, to PATH.TASK.txt, why
 * it did not let the task run. What it prints is for people. */
#define BATCHAI_REFUSALS_VARIABLE "BATCHAI_REFUSALS"

/* In the environment of a step whose tasks are root in the job's container: preparation. */
#define BATCHAI_IDENTITY_VARIABLE "BATCHAI_IDENTITY"
#define BATCHAI_IDENTITY_ROOT "root"

enum batchai_status {
    BATCHAI_STATUS_OK = 0, /* `text` is the directory where the task starts; empty: as Slurm says */
    BATCHAI_STATUS_FAILED = 1 /* `text` says why */
};

/* In the container there is one user id only, and the task is root: calls that change ids or owners
 * are answered with success and do nothing. */
#define BATCHAI_REPLY_ONE_ID 1u

/* The reply: this header, then text_length bytes of text, then environment_length bytes of entries,
 * each with a closing zero byte: "NAME=value" is set, "NAME" is taken away. */
struct batchai_reply_header {
    uint32_t magic;
    uint32_t version;
    uint32_t status;
    uint32_t flags;
    uint32_t text_length;
    uint32_t environment_length;
};
