// SPDX-License-Identifier: GPL-2.0-or-later
// Shows a program only the control groups of version 2.
//
// Slurm's plugin for version 2 refuses a machine on which a controller is bound to version 1
// ("Hybrid mode is not supported"), by the lines of /proc/PID/cgroup. With this library in
// LD_PRELOAD, slurmd and slurmstepd read there the line of the unified hierarchy alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int open_function(const char*, int, ...);
typedef FILE* fopen_function(const char*, const char*);

static int names_groups(const char* path) {
    return fnmatch("/proc/*/cgroup", path, FNM_PATHNAME) == 0;
}

// A descriptor of the file with only the line "0::PATH".
static int open_filtered(const char* path) {
    open_function* next = (open_function*)dlsym(RTLD_NEXT, "open");
    char text[8192];
    const int file = next(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    const ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length < 0) return -1;
    text[length] = '\0';
    const int filtered = memfd_create("cgroup", MFD_CLOEXEC);
    char* rest = text;
    for (char* line; filtered >= 0 && (line = strsep(&rest, "\n")) != NULL;) {
        if (strncmp(line, "0::", 3) == 0) dprintf(filtered, "%s\n", line);
    }
    if (filtered >= 0) lseek(filtered, 0, SEEK_SET);
    return filtered;
}

static int open_by(const char* function, const char* path, int flags, mode_t mode) {
    if (names_groups(path)) return open_filtered(path);
    return ((open_function*)dlsym(RTLD_NEXT, function))(path, flags, mode);
}

static FILE* fopen_by(const char* function, const char* path, const char* mode) {
    if (!names_groups(path)) return ((fopen_function*)dlsym(RTLD_NEXT, function))(path, mode);
    const int filtered = open_filtered(path);
    return filtered < 0 ? NULL : fdopen(filtered, "r");
}

static mode_t mode_of(int flags, va_list list) {
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

#define DEFINE_OPEN(name)                         \
    int name(const char* path, int flags, ...) {  \
        va_list list;                             \
        va_start(list, flags);                    \
        const mode_t mode = mode_of(flags, list); \
        va_end(list);                             \
        return open_by(#name, path, flags, mode); \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

FILE* fopen(const char* path, const char* mode) {
    return fopen_by("fopen", path, mode);
}

FILE* fopen64(const char* path, const char* mode) {
    return fopen_by("fopen64", path, mode);
}
