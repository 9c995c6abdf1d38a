// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/import.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/beneath.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/timestamp.hpp"
#include "base/utf8.hpp"
#include "image/cache.hpp"
#include "image/command.hpp"
#include "image/lease.hpp"
#include "image/manifest.hpp"
#include "image/resolve.hpp"

namespace batchai::image {

namespace {

// The depth of a tree is limited because each level holds a descriptor.
constexpr int deepest = 512;
constexpr int entries_per_tick = 256;

struct Close {
    void operator()(DIR* stream) const { closedir(stream); }
};
using Stream = std::unique_ptr<DIR, Close>;

// Walks a directory tree and gives its owner the rights that make_readable() promises.
class ReadableMaker {
  public:
    explicit ReadableMaker(const std::function<void()>& tick) : tick_(tick) {}

    void visit(int parent, const char* name, int depth) {
        if (tick_ && ++visited_ % entries_per_tick == 0) tick_();
        struct stat status {};
        if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return note(name);
        if (S_ISDIR(status.st_mode)) {
            directory(parent, name, status, depth);
        } else if (S_ISREG(status.st_mode) && (status.st_mode & S_IRUSR) == 0) {
            // fchmodat() would follow a link, but this entry was not a link a moment ago, and only
            // this process changes the tree.
            if (fchmodat(parent, name, (status.st_mode & 0777U) | S_IRUSR, 0) != 0) note(name);
        }
    }

    [[nodiscard]] base::Result<void> result(const std::string& path) const {
        if (first_error_.empty()) return {};
        return base::fail(first_error_, path);
    }

  private:
    void directory(int parent, const char* name, const struct stat& status, int depth) {
        if (depth > deepest) {
            errno = ENAMETOOLONG;
            return note(name);
        }
        if ((status.st_mode & S_IRWXU) != S_IRWXU &&
            fchmodat(parent, name, (status.st_mode & 0777U) | S_IRWXU, 0) != 0)
            return note(name);
        const int handle = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (handle < 0) return note(name);
        const Stream stream(fdopendir(handle));
        if (!stream) {
            close(handle);
            return note(name);
        }
        while (const dirent* const entry = readdir(stream.get())) {
            const std::string_view child(entry->d_name);
            if (child != "." && child != "..") visit(handle, entry->d_name, depth + 1);
        }
    }

    void note(const char* name) {
        if (errno == ENOENT || !first_error_.empty()) return;
        first_error_ = fmt::format("\"{}\" cannot be read: {}", name, std::strerror(errno));
    }

    const std::function<void()>& tick_;
    int visited_ = 0;
    std::string first_error_;
};

std::int64_t size_below(int handle, int depth) {
    const Stream stream(fdopendir(handle));
    if (!stream || depth > deepest) {
        if (!stream) close(handle);
        return 0;
    }
    std::int64_t total = 0;
    while (const dirent* const entry = readdir(stream.get())) {
        const std::string_view child(entry->d_name);
        if (child == "." || child == "..") continue;
        struct stat status {};
        if (fstatat(handle, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (S_ISREG(status.st_mode)) total += status.st_size;
        if (!S_ISDIR(status.st_mode)) continue;
        const int below =
            openat(handle, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0) total += size_below(below, depth + 1);
    }
    return total;
}

}  // namespace

base::Result<void> make_readable(const std::string& path, const std::function<void()>& tick) {
    ReadableMaker maker(tick);
    maker.visit(AT_FDCWD, path.c_str(), 0);
    return maker.result(path);
}

std::int64_t size_of_tree(const std::string& path) {
    const int handle = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return handle < 0 ? 0 : size_below(handle, 0);
}

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours longest_step{2};
// A registry that sends without end would fill the disk: skopeo looks at the size of a layer after
// its last byte. The image of another variant of this machine may be larger than the one whose
// manifest was read, by far less than this.
constexpr std::int64_t unexpected_bytes = 256LL << 20U;
constexpr std::size_t longest_complaint = 400;
constexpr std::string_view squashfs_ending = ".squashfs";
// The space that an import needs for each byte of the layers. The layers are compressed. The
// unpacked tree is about three times as large, and for a time both exist. After that the packed
// file, which is about as large as the layers, exists beside the tree.
constexpr std::int64_t room_per_layer_byte = 4;

// The working directory of one import.
class Workshop {
  public:
    static base::Result<Workshop> open(const ImportRequest& request) {
        std::string path = fmt::format(
            "{}/{}.{}", directory_of_imports(fs::path(request.root).parent_path().string()),
            entry_stem(request.digest), request.token);
        TRY(base::make_own_directory(path));
        Workshop workshop(std::move(path));
        TRY(base::make_own_directory(workshop.temporary()));
        return workshop;
    }
    Workshop(Workshop&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    Workshop(const Workshop&) = delete;
    Workshop& operator=(const Workshop&) = delete;
    Workshop& operator=(Workshop&&) = delete;
    ~Workshop() {
        // The next import removes what cannot be removed now.
        if (!path_.empty()) static_cast<void>(base::remove_tree(path_));
    }

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::string copied() const { return path_ + "/copied"; }
    [[nodiscard]] std::string layout() const { return path_ + "/layout"; }
    [[nodiscard]] std::string root() const { return path_ + "/root"; }
    [[nodiscard]] std::string temporary() const { return path_ + "/temporary"; }
    [[nodiscard]] std::string packed() const { return path_ + "/packed.squashfs"; }

  private:
    explicit Workshop(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

// Returns the free bytes of the file system, or -1 if they are not known. A quota may allow less.
std::int64_t free_bytes(const std::string& directory) {
    struct statvfs status {};
    if (statvfs(directory.c_str(), &status) != 0) return -1;
    return static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
}

tl::unexpected<base::Error> no_room(const std::string& directory, const std::string& image) {
    return base::fail(
        fmt::format("no space is left in {}: {} are free", directory,
                    base::size_text(std::max<std::int64_t>(free_bytes(directory), 0))),
        image, "batchai image prune makes room; image_directory in site.lua moves it");
}

// Returns the last line that a failed tool printed, or says that the disk is full.
tl::unexpected<base::Error> tool_failed(const ImportRequest& request, const std::string& program,
                                        const base::Completed& completed) {
    const std::string all = completed.standard_output + completed.standard_error;
    if (base::lower(all).find("no space left on device") != std::string::npos ||
        base::lower(all).find("disk quota exceeded") != std::string::npos)
        return no_room(fs::path(request.root).parent_path().string(), request.image);
    const std::string_view said = base::trim(completed.standard_error);
    std::string line(said.substr(said.rfind('\n') + 1));
    if (line.empty()) line = "it said nothing";
    // The names in an image may be long. The cause is at the end.
    if (line.size() > longest_complaint)
        line = "…" + base::printable(line.substr(line.size() - longest_complaint));
    return base::fail(
        fmt::format("{} failed with exit code {}: {}", program, completed.exit_code, line),
        request.image);
}

base::Result<void> run_tool(const ImportRequest& request, base::Arguments arguments,
                            const Watch& watch) {
    const std::string program = arguments.front();
    const auto done = TRY(run({std::move(arguments), longest_step}, watch));
    if (done.exit_code == 0) return {};
    return tool_failed(request, program, done);
}

// Returns the manifest that the source has now, which may be a list of others.
base::Result<std::string> ask_manifest(const ImportRequest& request, const Watch& watch) {
    std::string manifest = TRY(raw_manifest(request.source, request.image, request.access, watch));
    if (same_digits(digest_of(manifest), request.digest)) return manifest;
    return base::fail("has changed since the job was submitted", request.image,
                      "submit the job again", base::ExitCode::refused);
}

base::Result<void> copy_image(const ImportRequest& request, const Workshop& workshop,
                              std::int64_t total, const Watch& watch, const ShowProgress& show) {
    bool too_much = false;
    const Watch pulling{[&] {
                            if (watch.tick) watch.tick();
                            const std::int64_t copied = size_of_tree(workshop.copied());
                            too_much = total > 0 && copied > 2 * total + unexpected_bytes;
                            if (show) show({request.image, Stage::pulling, copied, total, {}});
                        },
                        [&] { return too_much || (watch.interrupted && watch.interrupted()); }};
    base::Arguments arguments{"skopeo", "copy", "--quiet", "--tmpdir", workshop.temporary()};
    for (const std::string& option : request.access.options())
        arguments.push_back(option == "--tls-verify=false" ? "--src-tls-verify=false" : option);
    arguments.push_back(request.source);
    arguments.push_back("dir:" + workshop.copied());
    const auto copied = run({std::move(arguments), longest_step}, pulling);
    if (too_much)
        return base::fail(fmt::format("its source sends more than the {} that its manifest says",
                                      base::size_text(total)),
                          request.image, "ask the owner of the source", base::ExitCode::refused);
    const auto done = TRY(copied);
    if (done.exit_code == 0) return {};
    if (done.standard_error.find("no space left") != std::string::npos)
        return tool_failed(request, "skopeo", done);
    return tl::unexpected<base::Error>(
        explain(done.standard_error,
                {request.image, request.access.registry, request.access.credential_source}));
}

// Makes sure that the image that was copied is the one with the digest of the request, or one that
// the list of that digest names. The copy has read the source once more, and whoever owns the
// source may have shown it something else than before. The copy is ours. skopeo has compared its
// layers and its configuration with the digests in its manifest, and compares them again as it
// reads them.
base::Result<void> check_copied(const ImportRequest& request, const Workshop& workshop,
                                const std::string& manifest) {
    const std::string copied =
        digest_of(TRY(base::read_file(workshop.copied() + "/manifest.json")));
    if (same_digits(copied, request.digest) || lists_digest(manifest, copied)) return {};
    return base::fail(
        fmt::format("is not what its source said: the digest of what was copied is {}, not {}",
                    copied, request.digest),
        request.image, "ask the owner of the source whether it was just changed",
        base::ExitCode::refused);
}

// Copies the image in skopeo's words to the directory "copied", where its manifest is as it was,
// and from there to a layout that umoci can read: Docker's types are converted, and layers that are
// packed with something else get gzip.
base::Result<void> pull(const ImportRequest& request, const Workshop& workshop, const Watch& watch,
                        const ShowProgress& show) {
    const std::string manifest = TRY(ask_manifest(request, watch));
    const std::int64_t total = layer_bytes(TRY(
        manifest_for_this_machine(manifest, request.source, request.image, request.access, watch)));
    TRY(check_space(workshop.path(), total, request.image));
    TRY(copy_image(request, workshop, total, watch, show));
    TRY(check_copied(request, workshop, manifest));
    TRY(run_tool(
        request,
        {"skopeo", "copy", "--quiet", "--tmpdir", workshop.temporary(), "--dest-compress-format",
         "gzip", "dir:" + workshop.copied(), fmt::format("oci:{}:image", workshop.layout())},
        watch));
    return base::remove_tree(workshop.copied(), watch.tick);
}

base::Result<void> unpack(const ImportRequest& request, const Workshop& workshop,
                          const Watch& watch, const ShowProgress& show) {
    if (show) show({request.image, Stage::unpacking, 0, 0, {}});
    return run_tool(request,
                    {"umoci", "raw", "unpack", "--rootless", "--image",
                     workshop.layout() + ":image", workshop.root()},
                    watch)
        .and_then([&] { return base::remove_tree(workshop.layout(), watch.tick); })
        .and_then([&] { return make_readable(workshop.root(), watch.tick); });
}

bool can_compress_with_zstd(const Watch& watch) {
    const auto help = run({{"mksquashfs", "-help"}, std::chrono::seconds(20)}, watch);
    return help &&
           (help->standard_output + help->standard_error).find("\tzstd") != std::string::npos;
}

base::Result<void> pack(const ImportRequest& request, const Workshop& workshop, const Watch& watch,
                        const ShowProgress& show) {
    const std::string packed = workshop.packed();
    const Watch packing{
        [&] {
            if (watch.tick) watch.tick();
            struct stat status {};
            const bool there = stat(packed.c_str(), &status) == 0;
            if (show) show({request.image, Stage::packing, there ? status.st_size : 0, 0, {}});
        },
        watch.interrupted};
    base::Arguments arguments{"mksquashfs", workshop.root(), packed,        "-noappend",
                              "-all-root",  "-no-xattrs",    "-no-progress"};
    // Level 3 is ten times as fast as the default of 15, and its output is a tenth larger.
    if (can_compress_with_zstd(watch))
        arguments.insert(arguments.end(), {"-comp", "zstd", "-Xcompression-level", "3"});
    arguments.insert(arguments.end(),
                     {"-action", "chmod(ug-s)@true", "-action", "exclude@type(b)||type(c)"});
    return run_tool(request, std::move(arguments), packing);
}

base::Result<void> sync_file(const std::string& path) {
    const base::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.valid() && fsync(file.get()) == 0) return {};
    return base::fail(fmt::format("cannot be written: {}", std::strerror(errno)), path);
}

// Syncs the file while `tick` is called, because a file server may take minutes for a large one.
base::Result<void> sync_while(const std::string& path, const std::function<void()>& tick) {
    constexpr std::chrono::milliseconds period{250};
    auto synced = std::async(std::launch::async, sync_file, path);
    while (synced.wait_for(period) != std::future_status::ready) {
        if (tick) tick();
    }
    return synced.get();
}

// Gives the file its name. What another process has made under the name in the meantime is the same
// and may be in use: on a file server, nodes would lose an image that is replaced.
bool take_name(const std::string& packed, const std::string& root) {
    if (link(packed.c_str(), root.c_str()) == 0 || errno == EEXIST) return true;
    // Some file systems have no links.
    return access(root.c_str(), F_OK) == 0 || base::rename_file(packed, root);
}

base::Result<void> publish(const ImportRequest& request, const Workshop& workshop,
                           const Watch& watch) {
    const std::string packed = workshop.packed();
    TRY(sync_while(packed, watch.tick));
    const base::Value::Object description{{"image", request.image},
                                          {"digest", request.digest},
                                          {"source", request.source},
                                          {"imported", base::to_iso8601(base::now())}};
    const std::string stem = request.root.substr(0, request.root.size() - squashfs_ending.size());
    if (auto written = base::write_atomically(stem + ".json", base::format_json(description),
                                              request.for_all ? 0644 : 0600);
        !written)
        return written;
    if (chmod(packed.c_str(), request.for_all ? 0444 : 0400) != 0 ||
        !take_name(packed, request.root))
        return base::fail(fmt::format("cannot be made: {}", std::strerror(errno)), request.root);
    // Best effort: some network file systems cannot sync directories.
    static_cast<void>(sync_file(fs::path(request.root).parent_path().string()));
    return {};
}

}  // namespace

base::Result<void> check_space(const std::string& directory, std::int64_t layers,
                               const std::string& image) {
    const std::int64_t free = free_bytes(directory);
    const std::int64_t needed = layers * room_per_layer_byte;
    if (free < 0 || needed <= free) return {};
    return base::fail(
        fmt::format("its import takes about {} in {}, where {} are free", base::size_text(needed),
                    fs::path(directory).parent_path().parent_path().string(),
                    base::size_text(free)),
        image, "batchai image prune makes room; image_directory in site.lua moves it");
}

std::string directory_of_imports(const std::string& directory) {
    return directory + "/.import";
}

void collect_leftovers(const std::string& import_directory, const std::string& own_stem,
                       const std::string& own_token) {
    std::error_code error;
    for (const auto& entry : base::entries_of(import_directory, error)) {
        const std::string name = entry.path().filename().string();
        // A new lock file has a temporary name at first, which begins with a dot.
        const std::size_t start = name.starts_with('.') ? 1 : 0;
        const std::string stem = name.substr(start, name.find('.', start) - start);
        if (digest_of_stem(stem).empty()) continue;
        const std::string lock = fmt::format("{}/{}.lock", import_directory, stem);
        const bool own = stem == own_stem;
        if (entry.is_directory(error) && !entry.is_symlink(error)) {
            const bool left =
                own ? name != fmt::format("{}.{}", own_stem, own_token) : is_abandoned(lock);
            if (left) static_cast<void>(base::remove_tree(entry.path()));
        } else if (is_abandoned(entry.path().string())) {
            unlink(entry.path().c_str());
        }
    }
}

base::Result<void> import_image(const ImportRequest& request, const Watch& watch,
                                const ShowProgress& show) {
    const auto workshop = TRY(Workshop::open(request));
    return pull(request, workshop, watch, show)
        .and_then([&] { return unpack(request, workshop, watch, show); })
        .and_then([&] { return pack(request, workshop, watch, show); })
        .and_then([&] { return check_interrupted(watch); })
        .and_then([&] { return publish(request, workshop, watch); });
}

}  // namespace batchai::image
