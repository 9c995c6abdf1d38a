// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/copy.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "base/beneath.hpp"
#include "base/process.hpp"
#include "base/standard_error.hpp"
#include "base/text.hpp"
#include "cli/output/terminal.hpp"
#include "image/progress.hpp"
#include "plan/paths.hpp"
#include "run/srun/piped_step.hpp"
#include "run/srun/srun_arguments.hpp"
#include "visit/tar/pack.hpp"
#include "visit/tar/unpack.hpp"

namespace batchai::visit {

namespace {

using run::PipedStep;

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

}  // namespace

base::Error gone_with_the_job(const status::JobView& view, const plan::Plan& plan,
                              const NodePath& path) {
    const auto host =
        path.expected.empty() ? std::optional<std::string>() : plan.host_path(path.expected);
    base::Error error{.what = "the job has ended, so nothing can be copied from or to its nodes",
                      .where = view.job.key.job,
                      .hint = {},
                      .exit_code = base::ExitCode::not_found};
    std::error_code ignored;
    if (host && fs::exists(*host, ignored))
        error.hint = fmt::format("this is on storage that the nodes share; its path here is {}",
                                 base::single_quoted(*host));
    else if (host)
        error.hint = fmt::format(
            "this was on storage that the nodes share; if the job has written "
            "it, its path is {}",
            base::single_quoted(*host));
    else
        error.hint =
            "what was on a node alone was removed with the job. Have the job write to "
            "$AZ_BATCHAI_OUTPUT_<id> to keep it";
    return error;
}

namespace {

// What the site's TaskProlog prints comes before the announcement, and may not end its line.
constexpr std::string_view announcement = "batchai-cp ";
// What the receiving script calls a copy before it is complete, and a directory that comes after
// it.
constexpr std::string_view copy_in_progress = ".batchai-cp-it";
constexpr std::string_view end_mark = ".batchai-cp-end";

// The exit codes of the scripts on the node.
enum Complaint : int {
    no_such_file = 64,
    is_a_directory = 65,
    no_tar = 66,
    not_entered = 67,
    in_the_way = 68,
    not_taken = 69,
    no_length = 70,
};

// Sets d and b to the directory and the name of $p.
constexpr std::string_view split_path = R"sh(while case "$p" in ?*/) true ;; *) false ;; esac; do
  p=${p%/}
done
case "$p" in /*) ;; *) p=./$p ;; esac
d=${p%/*}
b=${p##*/}
[ -n "$d" ] || d=/
command -v tar > /dev/null 2>&1 || exit 66
)sh";

// The first argument is 1 if directories are wanted. Links are followed, as scp does, so that the
// stream has none. GNU's tar would send a second name of the same file as a link. Standard output
// is the announcement of the name in the stream, and then the stream. tar copies nothing of a file
// that has contents and no length, as those of /proc have.
constexpr std::string_view send_script = R"sh([ -e "$p" ] || exit 64
if [ -d "$p" ] && [ "$1" != 1 ]; then exit 65; fi
cd "$d" || exit 67
if [ -f "./$b" ] && [ ! -s "./$b" ] && [ "$(head -c 1 "./$b" | wc -c)" -gt 0 ] && [ ! -s "./$b" ]; then
  exit 70
fi
printf '\nbatchai-cp %s\n' "$b"
case "$(tar --version 2> /dev/null)" in
*"GNU tar"*) set -- --hard-dereference ;;
*) set -- ;;
esac
exec tar -c -h -f - "$@" "./$b"
)sh";

// The first argument is "file" or "directory", the second the name that it gets in a directory. The
// announcement is of the name that it must have in the stream. What is not complete does not get
// its name, except in a directory that is there already. tar takes the end of its input between two
// entries for the end of the stream, so a last entry shows that nothing is missing.
constexpr std::string_view receive_script = R"sh(kind=$1
if [ -d "$p" ]; then d=$p b=$2; fi
[ -d "$d" ] || exit 64
cd "$d" || exit 67
if [ -d "./$b" ]; then
  [ "$kind" = directory ] || exit 68
  printf '\nbatchai-cp %s\n' "$b"
  exec tar -x -o -f -
fi
if [ "$kind" = directory ] && [ -e "./$b" ]; then exit 68; fi
t=.batchai-cp-$SLURM_JOB_ID-$SLURM_STEP_ID
mkdir "./$t" || exit 69
trap 'cd / && rm -rf "$d/$t"' EXIT
trap 'exit 69' HUP INT TERM
d=$(pwd)
printf '\nbatchai-cp .batchai-cp-it\n'
(cd "./$t" && exec tar -x -o -f -) && [ -d "./$t/.batchai-cp-end" ] &&
  mv -f "./$t/.batchai-cp-it" "./$b" || exit 69
)sh";

base::Error complaint(int code, const std::string& there, const std::string& node,
                      const std::string& said) {
    const std::string where = fmt::format("{} on {}", there, node);
    switch (code) {
        case no_such_file:
            return {"there is no such file or directory", where, {}, base::ExitCode::not_found};
        case is_a_directory:
            return {"is a directory", where, "add --recursive to copy it with all that is in it",
                    base::ExitCode::usage};
        case no_tar:
            return {"the job's image has no tar, which copies the files", where,
                    "put tar into the image, or have the job write to shared storage",
                    base::ExitCode::failed};
        case not_entered:
            return {"the directory cannot be entered", where, {}, base::ExitCode::failed};
        case no_length:
            return {"the file has no length, as files of /proc have none, and cannot be copied",
                    where, "read it with \"batchai job node exec\" and cat",
                    base::ExitCode::failed};
        case in_the_way:
            return {
                "something of another kind has this name there", where, {}, base::ExitCode::failed};
        default:
            break;
    }
    return {
        fmt::format("the copy failed (exit code {}){}{}", code, said.empty() ? "" : ":\n", said),
        where,
        {},
        base::ExitCode::failed};
}

// Shows how much has been copied, if somebody looks.
class CopyProgress {
  public:
    CopyProgress() : shown_(isatty(STDERR_FILENO) != 0) {}
    ~CopyProgress() { clear(); }
    CopyProgress(const CopyProgress&) = delete;
    CopyProgress& operator=(const CopyProgress&) = delete;

    void show(std::uint64_t bytes) {
        const auto now = Clock::now();
        if (!shown_ || now - last_ < std::chrono::milliseconds(200)) return;
        last_ = now;
        const double seconds = std::chrono::duration<double>(now - begin_).count();
        const auto rate = static_cast<std::int64_t>(static_cast<double>(bytes) / seconds);
        base::print_error("\r\033[K{}, {}/s", base::size_text(static_cast<std::int64_t>(bytes)),
                          base::size_text(rate));
        visible_ = true;
    }
    void clear() {
        if (std::exchange(visible_, false)) base::print_error("\r\033[K");
    }

  private:
    bool shown_;
    bool visible_ = false;
    Clock::time_point begin_ = Clock::now();
    Clock::time_point last_{};
};

constexpr int interrupted = 130;

// Waits until the descriptor is ready. Returns false if a signal has come first.
bool wait_for(PipedStep& step, const base::HeldSignals& signals, int descriptor, short events) {
    while (true) {
        std::array<pollfd, 3> waiting{{{descriptor, events, 0},
                                       {signals.descriptor(), POLLIN, 0},
                                       {step.messages(), POLLIN, 0}}};
        ::poll(waiting.data(), waiting.size(), -1);
        step.read_messages();
        if (waiting[1].revents != 0) return false;
        if (waiting[0].revents != 0) return true;
    }
}

base::Result<PipedStep> start_copy(const RunningJob& running, const CopyWish& wish,
                                   std::string_view script, base::Arguments first_arguments) {
    // Writing to a step that has ended is an error, not the end of this program.
    std::signal(SIGPIPE, SIG_IGN);
    const std::string text =
        shell_path(wish.there, first_arguments.size() + 1).append(split_path).append(script);
    base::Arguments command{"/bin/sh", "-c", run::guarded(text), "batchai-cp"};
    command.insert(command.end(), first_arguments.begin(), first_arguments.end());
    const auto texts = texts_of(wish.there);
    command.insert(command.end(), texts.begin(), texts.end());
    return PipedStep::start(run::piped_arguments({.job_id = running.slurm_id,
                                                  .nodes = {wish.place.node},
                                                  .name = "batchai-cp",
                                                  .prompt = false,
                                                  .command = std::move(command)}),
                            visit_environment(running, wish.place.as_rank));
}

struct Announced {
    std::string name;  // that the copy has in the stream
    std::string rest;  // what came after the announcement
};

// Reads up to the announcement. Returns nothing if the step ends or a signal comes first.
std::optional<Announced> announced(PipedStep& step, const base::HeldSignals& signals) {
    constexpr std::size_t longest = 65536;
    std::string text;
    while (text.size() < longest) {
        for (const std::string_view line : base::split(text, '\n')) {
            const char* const end = line.data() + line.size();
            const char* const read_until = text.data() + text.size();
            if (end == read_until || !line.starts_with(announcement)) continue;
            return Announced{.name = std::string(line.substr(announcement.size())),
                             .rest = std::string(end + 1, read_until)};
        }
        if (!wait_for(step, signals, step.output(), POLLIN)) return std::nullopt;
        if (!base::drain(step.output(), text)) return std::nullopt;
    }
    return std::nullopt;
}

struct Destination {
    base::Root directory;
    std::string name;  // empty: the name that the copied one has on the node
};

// Finds where the copy goes, as cp does: into a directory, or to a name in one. Links in the user's
// own path are followed; below it none are.
base::Result<Destination> destination(const std::string& here, const NodePath& there) {
    std::error_code code;
    fs::path path = fs::weakly_canonical(fs::absolute(here), code);
    if (code) return base::fail(code.message(), here);
    std::string name = path.filename().string();
    if (fs::is_directory(path, code)) {
        name = there.name;
    } else if (here.ends_with('/')) {
        return base::fail("there is no such directory", here, {}, base::ExitCode::not_found);
    } else {
        path = path.parent_path();
    }
    base::FileDescriptor directory(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid()) return base::system_error("enter the directory", path);
    return Destination{.directory = {.directory = std::move(directory), .path = path.string()},
                       .name = std::move(name)};
}

}  // namespace

base::Result<int> copy_from_node(const RunningJob& running, const CopyWish& wish) {
    auto into = TRY(destination(wish.here, wish.there));
    const base::HeldSignals signals{SIGINT, SIGTERM, SIGHUP};
    auto step = TRY(start_copy(running, wish, send_script, {wish.recursive ? "1" : "0"}));
    step.kill_at_end();
    const std::string there = shown_path(wish.there);
    const auto stream = announced(step, signals);
    if (!stream) {
        const auto [code, stopped] = step.wait(signals);
        if (stopped) return interrupted;
        return tl::unexpected(complaint(code, there, wish.place.node, step.said()));
    }
    // The node must not choose a name that the user has not asked for, such as .bashrc.
    if (into.name.empty()) {
        if (!may_be_named(wish.there, stream->name))
            return base::fail("the node names the copy in a way that does not fit its path", there,
                              "end the target with the name that the copy gets");
        into.name = stream->name;
    }
    CopyProgress progress;
    std::string_view rest = stream->rest;
    std::string chunk(256UL << 10U, '\0');
    bool stopped = false;
    const auto more = [&]() -> std::string_view {
        if (!rest.empty()) return std::exchange(rest, {});
        while (true) {
            stopped = stopped || !wait_for(step, signals, step.output(), POLLIN);
            if (stopped) return {};
            const ssize_t count = read(step.output(), chunk.data(), chunk.size());
            if (count < 0 && errno == EINTR) continue;
            return std::string_view(chunk).substr(
                0, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        }
    };
    const UnpackPlace place{
        .directory = std::move(into.directory), .top = stream->name, .name = into.name};
    const auto unpacked = unpack(
        place, more,
        [&](const std::string& remark) {
            progress.clear();
            cli::say(remark);
        },
        [&](std::uint64_t bytes) { progress.show(bytes); });
    if (stopped) return interrupted;
    TRY(unpacked);
    const auto [code, stopped_at_end] = step.wait(signals);
    if (stopped_at_end) return interrupted;
    progress.clear();
    if (code != 0 && unpacked->files == 0)
        return tl::unexpected(complaint(code, there, wish.place.node, step.said()));
    if (!unpacked->complete)
        return base::fail("the copy ended before it was complete",
                          place.directory.path + '/' + place.name);
    if (code != 0)
        cli::say(fmt::format("not all of {} on {} could be copied:\n{}", there, wish.place.node,
                             step.said()));
    return code != 0 || unpacked->passed_over ? 1 : 0;
}

base::Result<int> copy_to_node(const RunningJob& running, const CopyWish& wish) {
    std::error_code code;
    const fs::path source = fs::weakly_canonical(fs::absolute(wish.here), code);
    const auto status = fs::status(source, code);
    if (!fs::exists(status))
        return base::fail("there is no such file or directory", wish.here, {},
                          base::ExitCode::not_found);
    const bool directory = fs::is_directory(status);
    if (directory && !wish.recursive)
        return base::fail("is a directory", wish.here,
                          "add --recursive to copy it with all that is in it",
                          base::ExitCode::usage);
    if (!directory && !fs::is_regular_file(status))
        return base::fail("is neither a file nor a directory", wish.here, {},
                          base::ExitCode::usage);
    const std::string name = source.filename().string();
    if (!plan::is_component(name))
        return base::fail("has no name that the copy could get", wish.here, {},
                          base::ExitCode::usage);
    const base::HeldSignals signals{SIGINT, SIGTERM, SIGHUP};
    auto step =
        TRY(start_copy(running, wish, receive_script, {directory ? "directory" : "file", name}));
    const auto top = announced(step, signals);
    // Ctrl-C must be seen while the node takes nothing.
    fcntl(step.input(), F_SETFL, O_NONBLOCK);
    CopyProgress progress;
    std::uint64_t sent = 0;
    bool stopped = false;
    bool taken = true;
    const auto write_all = [&](std::string_view bytes) {
        while (!bytes.empty()) {
            stopped = !wait_for(step, signals, step.input(), POLLOUT);
            if (stopped) return false;
            const ssize_t count = ::write(step.input(), bytes.data(), bytes.size());
            if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
            taken = count >= 0;
            if (!taken) return false;
            bytes.remove_prefix(static_cast<std::size_t>(count));
            sent += static_cast<std::uint64_t>(count);
        }
        progress.show(sent);
        return true;
    };
    base::Result<Packed> packed = base::fail("the node does not take any more");
    if (top)
        packed = pack(
            source,
            {.top = top->name,
             .last = std::string(top->name == copy_in_progress ? end_mark : std::string_view())},
            write_all, [&](const std::string& remark) {
                progress.clear();
                cli::say(remark);
            });
    if (stopped) return interrupted;
    step.close_input();
    const auto [exit_code, interrupted_at_end] = step.wait(signals);
    if (interrupted_at_end) return interrupted;
    progress.clear();
    // What is wrong here comes before what the node says of a stream that is cut off.
    if (top && !packed && taken) return tl::unexpected<base::Error>(std::move(packed).error());
    if (exit_code != 0)
        return tl::unexpected(
            complaint(exit_code, shown_path(wish.there), wish.place.node, step.said()));
    if (!packed) return tl::unexpected<base::Error>(std::move(packed).error());
    return packed->passed_over ? 1 : 0;
}

}  // namespace batchai::visit
