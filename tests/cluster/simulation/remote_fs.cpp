// SPDX-License-Identifier: GPL-2.0-or-later
//
// A file system as sites have it on their file servers, for the trait `remote`. Each host mounts
// one of its own over the same directory of this machine, so that hosts have caches of their own:
//
//   remote_fs DIRECTORY FAULTS MOUNT [squash]
//
// What an NFS client does to programs happens here too: operations on names take time, attributes
// are cached for some seconds, the name of a removed file that is open lives on, root may be
// nobody, and an operation whose reply is lost is sent a second time, which fails although the
// first did what was asked. FAULTS is a file with words and numbers, read before each operation:
//
//   delay MS      how long an operation on a name takes
//   lost N        of 1,000 operations that change a name, N are made twice
//   stale N       of N openings of files called *.json, one gives ESTALE to the program
//   full 1        nothing more can be written: ENOSPC
//   quota 1       nothing more can be written: EDQUOT
//   away 1        nothing is answered until this is taken back
#define FUSE_USE_VERSION 314

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace {

constexpr double cached_seconds = 3;
constexpr unsigned nobody = 65534;

int directory = -1;  // what is shown
int faults = -1;     // the directory of the file of faults
std::string faults_name;
bool squashes_root = false;
std::atomic<std::uint64_t> draws{0};

// What the kernel has been told of a file, and keeps for some seconds. A client of NFS asks again
// when it opens a file, and looks the name up anew if the file is another one by then.
struct Told {
    ino_t file = 0;
    off_t bytes = 0;
    timespec changed{};
    bool is_asked_again = false;  // after ESTALE
    bool stays_stale = false;     // for one opening more

    [[nodiscard]] bool is_of(const struct stat& status) const {
        return file == status.st_ino && bytes == status.st_size &&
               changed.tv_sec == status.st_ctim.tv_sec && changed.tv_nsec == status.st_ctim.tv_nsec;
    }
};
std::mutex telling;
std::map<std::string, Told> told;

void tell(const char* path, const struct stat& status) {
    const std::lock_guard lock(telling);
    Told& known = told[path];
    known.file = status.st_ino;
    known.bytes = status.st_size;
    known.changed = status.st_ctim;
}

struct Faults {
    long delay = 0;
    long lost = 0;
    long stale = 0;
    long full = 0;
    long quota = 0;
    long away = 0;
};

Faults current_faults() {
    Faults found;
    const int file = openat(faults, faults_name.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return found;
    char text[512] = {};
    const ssize_t bytes = read(file, text, sizeof text - 1);
    close(file);
    if (bytes <= 0) return found;
    char* rest = nullptr;
    for (char* word = strtok_r(text, " \n", &rest); word != nullptr;
         word = strtok_r(nullptr, " \n", &rest)) {
        const char* const number = strtok_r(nullptr, " \n", &rest);
        if (number == nullptr) break;
        const long value = std::strtol(number, nullptr, 10);
        const std::string name = word;
        if (name == "delay") found.delay = value;
        if (name == "lost") found.lost = value;
        if (name == "stale") found.stale = value;
        if (name == "full") found.full = value;
        if (name == "quota") found.quota = value;
        if (name == "away") found.away = value;
    }
    return found;
}

// Whether chance wants a fault of which there are so many in 1,000. The draws of a process are the
// same in each run (splitmix64).
bool drawn(long in_thousand) {
    if (in_thousand <= 0) return false;
    std::uint64_t value = ++draws * 0x9e3779b97f4a7c15U;
    value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
    return (value ^ (value >> 31U)) % 1000 < static_cast<std::uint64_t>(in_thousand);
}

// While it lives, this thread has no more rights than the caller on the server. Users' rights are
// checked by the kernel (default_permissions), which lets root do everything.
class AsCaller {
  public:
    AsCaller() : squashed_(squashes_root && fuse_get_context()->uid == 0) {
        if (!squashed_) return;
        setfsgid(nobody);
        setfsuid(nobody);
    }
    ~AsCaller() {
        if (!squashed_) return;
        setfsuid(0);
        setfsgid(0);
    }
    AsCaller(const AsCaller&) = delete;
    AsCaller& operator=(const AsCaller&) = delete;
    [[nodiscard]] bool squashed() const { return squashed_; }

  private:
    bool squashed_;
};

// Waits until the server answers.
Faults answering() {
    Faults found = current_faults();
    while (found.away != 0) {
        usleep(20'000);
        found = current_faults();
    }
    return found;
}

Faults after_a_while() {
    const Faults found = answering();
    if (found.delay > 0) usleep(static_cast<useconds_t>(found.delay) * 1000);
    return found;
}

const char* relative(const char* path) {
    return path[1] == '\0' ? "." : path + 1;
}

int outcome(int result) {
    return result < 0 ? -errno : 0;
}

int no_room(const Faults& found) {
    if (found.full != 0) return -ENOSPC;
    return found.quota != 0 ? -EDQUOT : 0;
}

// An operation on a name, made twice if the first reply is lost.
template <typename Operation>
int change(const Operation& operation, bool needs_room = false) {
    const Faults found = after_a_while();
    if (const int none = no_room(found); needs_room && none != 0) return none;
    const AsCaller caller;
    const int first = outcome(operation());
    return first == 0 && drawn(found.lost) ? outcome(operation()) : first;
}

// What root has made belongs to the caller; the group of a directory with the bit is inherited.
int give_to_caller(const char* path) {
    const fuse_context* const caller = fuse_get_context();
    if (squashes_root && caller->uid == 0) return 0;
    const std::string name = relative(path);
    const auto slash = name.rfind('/');
    struct stat above {};
    if (fstatat(directory, slash == std::string::npos ? "." : name.substr(0, slash).c_str(), &above,
                0) != 0)
        return -errno;
    const auto group = (above.st_mode & S_ISGID) != 0 ? static_cast<gid_t>(-1) : caller->gid;
    return outcome(fchownat(directory, name.c_str(), caller->uid, group, AT_SYMLINK_NOFOLLOW));
}

// The same of an operation that makes something, which then is the caller's.
template <typename Operation>
int make(const char* path, const Operation& operation) {
    return change(
        [&] {
            if (operation() != 0) return -1;
            errno = -give_to_caller(path);
            return errno == 0 ? 0 : -1;
        },
        true);
}

int file_of(const fuse_file_info* info) {
    return static_cast<int>(info->fh);
}

// A server answers for a file that the client has found before, whoever asks, and it is not known
// here whether it has found this one. So root may look at everything, though no server allows that.
int get_attributes(const char* path, struct stat* status, fuse_file_info* info) {
    if (info != nullptr) return outcome(fstat(file_of(info), status));
    after_a_while();
    const int found = outcome(fstatat(directory, relative(path), status, AT_SYMLINK_NOFOLLOW));
    if (found == 0) tell(path, *status);
    return found;
}

int read_link(const char* path, char* text, std::size_t bytes) {
    after_a_while();
    const ssize_t length = readlinkat(directory, relative(path), text, bytes - 1);
    if (length < 0) return -errno;
    text[length] = '\0';
    return 0;
}

int make_node(const char* path, mode_t mode, dev_t device) {
    return make(path, [&] { return mknodat(directory, relative(path), mode, device); });
}

int make_directory(const char* path, mode_t mode) {
    return make(path, [&] { return mkdirat(directory, relative(path), mode); });
}

int make_symbolic_link(const char* target, const char* path) {
    return make(path, [&] { return symlinkat(target, directory, relative(path)); });
}

int remove_file(const char* path) {
    return change([&] { return unlinkat(directory, relative(path), 0); });
}

int remove_directory(const char* path) {
    return change([&] { return unlinkat(directory, relative(path), AT_REMOVEDIR); });
}

int rename_file(const char* from, const char* to, unsigned flags) {
    return change(
        [&] { return renameat2(directory, relative(from), directory, relative(to), flags); });
}

int link_file(const char* from, const char* to) {
    return change([&] { return linkat(directory, relative(from), directory, relative(to), 0); },
                  true);
}

int change_mode(const char* path, mode_t mode, fuse_file_info* info) {
    after_a_while();
    const AsCaller caller;
    if (caller.squashed()) return -EPERM;
    if (info != nullptr) return outcome(fchmod(file_of(info), mode));
    return outcome(fchmodat(directory, relative(path), mode, 0));
}

int change_owner(const char* path, uid_t user, gid_t group, fuse_file_info* info) {
    after_a_while();
    const AsCaller caller;
    if (caller.squashed()) return -EPERM;
    if (info != nullptr) return outcome(fchown(file_of(info), user, group));
    return outcome(fchownat(directory, relative(path), user, group, AT_SYMLINK_NOFOLLOW));
}

int cut(const char* path, off_t bytes, fuse_file_info* info) {
    after_a_while();
    if (info != nullptr) return outcome(ftruncate(file_of(info), bytes));
    const AsCaller caller;
    const int file = openat(directory, relative(path), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return -errno;
    const int done = outcome(ftruncate(file, bytes));
    close(file);
    return done;
}

int set_times(const char* path, const timespec times[2], fuse_file_info* info) {
    after_a_while();
    const AsCaller caller;
    if (info != nullptr) return outcome(futimens(file_of(info), times));
    return outcome(utimensat(directory, relative(path), times, AT_SYMLINK_NOFOLLOW));
}

// The kernel opens what it has looked up, some seconds ago perhaps. It looks once more when it gets
// ESTALE. What changes all the time is opened nevertheless, and read past what the kernel knows.
enum class Known { as_it_is, to_be_asked, never };

Known known_to_the_kernel(const char* path, int file) {
    struct stat status {};
    if (fstat(file, &status) != 0) return Known::never;
    const std::lock_guard lock(telling);
    Told& known = told[path];
    const bool differs = !known.is_of(status);
    known.is_asked_again = differs && !known.is_asked_again;
    if (known.is_asked_again) return Known::to_be_asked;
    return differs ? Known::never : Known::as_it_is;
}

// The kernel opens a name twice before a program hears of ESTALE.
bool is_said_to_be_stale(const std::string& path, long one_in) {
    static long openings = 0;
    constexpr std::string_view ending = ".json";
    if (one_in <= 0 || path.size() < ending.size() ||
        path.compare(path.size() - ending.size(), ending.size(), ending) != 0)
        return false;
    const std::lock_guard lock(telling);
    bool& stays = told[path].stays_stale;
    if (std::exchange(stays, false)) return true;
    stays = ++openings % one_in == 0;
    return stays;
}

int open_name(const char* path, int flags, fuse_file_info* info) {
    const Faults found = after_a_while();
    if (is_said_to_be_stale(path, found.stale)) return -ESTALE;
    const AsCaller caller;
    const int file = openat(directory, relative(path), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return errno == ENOENT ? -ESTALE : -errno;
    const Known known = known_to_the_kernel(path, file);
    info->direct_io = known == Known::never && (flags & O_ACCMODE) == O_RDONLY ? 1 : 0;
    if (known != Known::to_be_asked) return file;
    close(file);
    return -ESTALE;
}

int open_file(const char* path, fuse_file_info* info) {
    const int file = open_name(path, info->flags & (O_ACCMODE | O_TRUNC), info);
    if (file < 0) return file;
    info->fh = static_cast<std::uint64_t>(file);
    return 0;
}

int create_file(const char* path, mode_t mode, fuse_file_info* info) {
    const Faults found = after_a_while();
    if (const int none = no_room(found)) return none;
    int file = -1;
    {
        const AsCaller caller;
        const int flags = info->flags & (O_ACCMODE | O_TRUNC | O_EXCL);
        file = openat(directory, relative(path), flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
    }
    if (file < 0) return -errno;
    info->fh = static_cast<std::uint64_t>(file);
    struct stat status {};
    if (fstat(file, &status) == 0) tell(path, status);
    return give_to_caller(path);
}

int read_file(const char*, char* data, std::size_t bytes, off_t offset, fuse_file_info* info) {
    answering();
    const ssize_t count = pread(file_of(info), data, bytes, offset);
    return count < 0 ? -errno : static_cast<int>(count);
}

int write_file(const char*, const char* data, std::size_t bytes, off_t offset,
               fuse_file_info* info) {
    if (const int none = no_room(answering())) return none;
    const ssize_t count = pwrite(file_of(info), data, bytes, offset);
    return count < 0 ? -errno : static_cast<int>(count);
}

int say_room(const char*, struct statvfs* room) {
    return outcome(fstatvfs(directory, room));
}

int flush_file(const char*, fuse_file_info* info) {
    return outcome(close(dup(file_of(info))));
}

int close_file(const char*, fuse_file_info* info) {
    close(file_of(info));
    return 0;
}

int sync_file(const char*, int only_data, fuse_file_info* info) {
    answering();
    return outcome(only_data != 0 ? fdatasync(file_of(info)) : fsync(file_of(info)));
}

int open_directory(const char* path, fuse_file_info* info) {
    const int file = open_name(path, O_RDONLY | O_DIRECTORY, info);
    if (file < 0) return file;
    DIR* const stream = fdopendir(file);
    if (stream == nullptr) return -errno;
    info->fh = reinterpret_cast<std::uint64_t>(stream);
    return 0;
}

int read_directory(const char*, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info* info,
                   fuse_readdir_flags) {
    answering();
    DIR* const stream = reinterpret_cast<DIR*>(info->fh);
    rewinddir(stream);
    while (const dirent* const entry = readdir(stream)) {
        struct stat status {};
        status.st_ino = entry->d_ino;
        status.st_mode = DTTOIF(entry->d_type);
        if (fill(buffer, entry->d_name, &status, 0, static_cast<fuse_fill_dir_flags>(0)) != 0)
            break;
    }
    return 0;
}

int close_directory(const char*, fuse_file_info* info) {
    closedir(reinterpret_cast<DIR*>(info->fh));
    return 0;
}

// Locks are held on the server, so that the hosts see each other's.
int lock_record(const char*, fuse_file_info* info, int command, struct flock* lock) {
    lock->l_pid = 0;
    const int own =
        command == F_GETLK ? F_OFD_GETLK : (command == F_SETLKW ? F_OFD_SETLKW : F_OFD_SETLK);
    return outcome(fcntl(file_of(info), own, lock));
}

int lock_file(const char*, fuse_file_info* info, int operation) {
    return outcome(flock(file_of(info), operation));
}

void* begin(fuse_conn_info*, fuse_config* config) {
    config->use_ino = 1;
    config->attr_timeout = config->entry_timeout = cached_seconds;
    config->negative_timeout = 0;
    return nullptr;
}

int must(int result, const char* what) {
    if (result >= 0) return result;
    std::fprintf(stderr, "remote_fs: %s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

}  // namespace

int main(int count, char** words) {
    if (count < 4) {
        std::fprintf(stderr, "usage: remote_fs DIRECTORY FAULTS MOUNT [squash]\n");
        return 2;
    }
    directory = must(open(words[1], O_PATH | O_DIRECTORY | O_CLOEXEC), words[1]);
    directory = must(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), words[1]);
    const std::string path = words[2];
    const auto slash = path.rfind('/');
    faults_name = path.substr(slash + 1);
    faults =
        must(open(path.substr(0, slash).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), words[2]);
    squashes_root = count > 4 && std::string(words[4]) == "squash";
    umask(0);
    must(setgroups(0, nullptr), "setgroups");

    fuse_operations operations{};
    operations.getattr = get_attributes;
    operations.readlink = read_link;
    operations.mknod = make_node;
    operations.mkdir = make_directory;
    operations.symlink = make_symbolic_link;
    operations.unlink = remove_file;
    operations.rmdir = remove_directory;
    operations.rename = rename_file;
    operations.link = link_file;
    operations.chmod = change_mode;
    operations.chown = change_owner;
    operations.truncate = cut;
    operations.utimens = set_times;
    operations.open = open_file;
    operations.create = create_file;
    operations.read = read_file;
    operations.write = write_file;
    operations.statfs = say_room;
    operations.flush = flush_file;
    operations.release = close_file;
    operations.fsync = sync_file;
    operations.opendir = open_directory;
    operations.readdir = read_directory;
    operations.releasedir = close_directory;
    operations.lock = lock_record;
    operations.flock = lock_file;
    operations.init = begin;

    std::string name = words[0];
    std::string mount = words[3];
    std::string option = "-o";
    std::string options =
        "allow_other,default_permissions,fsname=server:/export,subtype=remote,max_threads=64";
    char* arguments[] = {name.data(), mount.data(), option.data(), options.data(), nullptr};
    return fuse_main(4, arguments, &operations, nullptr);
}
