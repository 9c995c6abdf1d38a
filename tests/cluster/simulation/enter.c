/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `minicluster exec`: runs a command on a host as one of its users, in the environment of a fresh
 * login. `minicluster up` compiles it into the directory of the cluster. It is not Python because
 * the tests start it some ten thousand times, and Python took a third of their processor time.
 *
 * Usage: enter [--host HOST] [--user USER] [--env NAME=VALUE]... [--cwd DIRECTORY] [--] [CMD...]
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The mount namespace comes last: /proc is that of the machine until then. */
static const char* const namespaces[] = {"ipc", "uts", "net", "pid", "cgroup", "mnt"};
enum { namespace_count = sizeof namespaces / sizeof namespaces[0] };
static const int forwarded[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2};
enum { forwarded_count = sizeof forwarded / sizeof forwarded[0] };

static void __attribute__((noreturn, format(printf, 2, 3)))
fail(const char* hint, const char* format, ...) {
    va_list words;
    va_start(words, format);
    fputs("minicluster: error: ", stderr);
    vfprintf(stderr, format, words);
    fputc('\n', stderr);
    va_end(words);
    if (hint != NULL) fprintf(stderr, "minicluster: hint: %s\n", hint);
    exit(1);
}

/* The directory of the cluster is that of this program. */
static void find_directory(char* directory, size_t size) {
    const ssize_t length = readlink("/proc/self/exe", directory, size - 1);
    if (length < 0) fail(NULL, "/proc/self/exe cannot be read: %s", strerror(errno));
    directory[length] = '\0';
    char* const slash = strrchr(directory, '/');
    if (slash != NULL) *slash = '\0';
}

/* Where the node runs, if it is one: `minicluster up` leaves links from nodes to hosts. */
static void find_host(const char* directory, const char* node, char* host, size_t size) {
    char path[PATH_MAX + NAME_MAX];
    snprintf(path, sizeof path, "%s/host-of-%s", directory, node);
    const ssize_t length = readlink(path, host, size - 1);
    if (length < 0)
        snprintf(host, size, "%s", node);
    else
        host[length] = '\0';
}

/* The process that holds the host: anchors.py says what its command line looks like. 0: none. */
static pid_t find_anchor(const char* directory, const char* host) {
    char wanted[2 * PATH_MAX];
    const int wanted_length = snprintf(
        wanted, sizeof wanted, "minicluster-host\n%s\n%s%cinfinity%c", directory, host, '\0', '\0');
    DIR* const processes = opendir("/proc");
    if (processes == NULL) fail(NULL, "/proc cannot be read: %s", strerror(errno));
    pid_t found = 0;
    for (struct dirent* entry = readdir(processes); entry != NULL && found == 0;
         entry = readdir(processes)) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        char path[NAME_MAX + 32];
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        const int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0) continue;
        char words[sizeof wanted];
        const ssize_t length = read(file, words, sizeof words);
        close(file);
        if (length == wanted_length && memcmp(words, wanted, (size_t)length) == 0)
            found = (pid_t)atoi(entry->d_name);
    }
    closedir(processes);
    return found;
}

/* The first line of the file `prefix` in the directory; empty if the cluster shows no project. */
static void read_prefix(const char* directory, char* prefix, size_t size) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/prefix", directory);
    FILE* const file = fopen(path, "re");
    prefix[0] = '\0';
    if (file == NULL) return;
    if (fgets(prefix, (int)size, file) != NULL) prefix[strcspn(prefix, "\n")] = '\0';
    fclose(file);
}

/* Children of this process are then processes of the host. */
static void join(pid_t anchor) {
    int opened[namespace_count];
    for (int i = 0; i < namespace_count; ++i) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)anchor, namespaces[i]);
        opened[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (opened[i] < 0)
            fail("run it as root", "the host cannot be entered: %s: %s", path, strerror(errno));
    }
    for (int i = 0; i < namespace_count; ++i) {
        if (setns(opened[i], 0) != 0)
            fail("run it as root", "the host cannot be entered: %s: %s", namespaces[i],
                 strerror(errno));
        close(opened[i]);
    }
}

static void set_environment(const struct passwd* account, const char* prefix) {
    const char* const terminal = getenv("TERM");
    char kept[256];
    snprintf(kept, sizeof kept, "%s", terminal != NULL ? terminal : "dumb");
    char path[PATH_MAX + 128];
    snprintf(path, sizeof path, "%s%s%s/usr/local/bin:/usr/bin:/bin", prefix,
             prefix[0] != '\0' ? "/bin:" : "",
             account->pw_uid == 0 ? "/usr/local/sbin:/usr/sbin:/sbin:" : "");
    clearenv();
    setenv("HOME", account->pw_dir, 1);
    setenv("USER", account->pw_name, 1);
    setenv("LOGNAME", account->pw_name, 1);
    setenv("SHELL", account->pw_shell, 1);
    setenv("LANG", "C.UTF-8", 1);
    setenv("TERM", kept, 1);
    setenv("PATH", path, 1);
}

static void __attribute__((noreturn))
run(const struct passwd* account, const char* directory, char** command) {
    sigset_t all;
    sigemptyset(&all);
    for (int i = 0; i < forwarded_count; ++i) {
        signal(forwarded[i], SIG_DFL);
        sigaddset(&all, forwarded[i]);
    }
    sigaddset(&all, SIGCHLD);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    close_range(3, ~0U, 0);
    /* No command outlives the one that asked for it. The kernel forgets this with the user id. */
    if (initgroups(account->pw_name, account->pw_gid) == 0 && setgid(account->pw_gid) == 0 &&
        setuid(account->pw_uid) == 0 && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 &&
        chdir(directory != NULL ? directory : account->pw_dir) == 0)
        execvp(command[0], command);
    fprintf(stderr, "minicluster: error: %s: %s\n", command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* Passes signals on until the command ends; its exit code, or 128 and the signal's number. */
static int await(pid_t child, const sigset_t* waited) {
    for (;;) {
        int status = 0;
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        siginfo_t received;
        if (sigwaitinfo(waited, &received) < 0 || received.si_signo == SIGCHLD) continue;
        /* The terminal's Ctrl-C reached the command already: both are in the foreground group. */
        if (received.si_code != SI_KERNEL) kill(child, received.si_signo);
    }
}

int main(int argc, char** argv) {
    static const struct option options[] = {{"host", required_argument, NULL, 'h'},
                                            {"user", required_argument, NULL, 'u'},
                                            {"env", required_argument, NULL, 'e'},
                                            {"cwd", required_argument, NULL, 'c'},
                                            {NULL, 0, NULL, 0}};
    const char* host = "login";
    const char* user = "alice";
    const char* directory = NULL;
    char** const settings = calloc((size_t)argc, sizeof *settings);
    int setting_count = 0;
    for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
        if (option == 'h')
            host = optarg;
        else if (option == 'u')
            user = optarg;
        else if (option == 'c')
            directory = optarg;
        else if (option == 'e' && strchr(optarg, '=') != NULL && optarg[0] != '=')
            settings[setting_count++] = optarg;
        else if (option == 'e')
            fail(NULL, "--env '%s' is not NAME=VALUE", optarg);
        else
            return 2;
    }
    char cluster[PATH_MAX];
    find_directory(cluster, sizeof cluster);
    const char* const name = strrchr(cluster, '/') + 1;
    char host_name[NAME_MAX];
    find_host(cluster, host, host_name, sizeof host_name);
    const pid_t anchor = find_anchor(cluster, host_name);
    if (anchor == 0) fail(NULL, "host %s of cluster %s does not run", host, name);
    char prefix[PATH_MAX];
    read_prefix(cluster, prefix, sizeof prefix);

    sigset_t waited;
    sigemptyset(&waited);
    for (int i = 0; i < forwarded_count; ++i)
        sigaddset(&waited, forwarded[i]);
    sigaddset(&waited, SIGCHLD);
    sigprocmask(SIG_BLOCK, &waited, NULL);
    join(anchor);
    const struct passwd* const account = getpwnam(user);
    if (account == NULL) fail("alice, bob or root", "the cluster has no user %s", user);
    set_environment(account, prefix);
    for (int i = 0; i < setting_count; ++i)
        putenv(settings[i]);
    char* shell[] = {"/bin/bash", "--login", NULL};
    const pid_t child = fork();
    if (child < 0) fail(NULL, "fork: %s", strerror(errno));
    if (child == 0) run(account, directory, optind < argc ? argv + optind : shell);
    return await(child, &waited);
}
