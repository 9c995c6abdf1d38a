// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/mount_options.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace batchai::plan {

namespace {

// The names of mount(8), nfs(5) and blobfuse, each between blanks.
constexpr std::string_view without_effect =
    " _netdev ac acdirmax acdirmin acl acregmax acregmin actimeo allow_other async atime"
    " attr_timeout auto auto_cache bg big_writes cache-size-mb cto default_permissions"
    " defaults dir_mode diratime entry_timeout exec fg file-cache-timeout-in-seconds"
    " file_mode fsc fsname gid hard intr kernel_cache lazytime local_lock lock log-level"
    " lookupcache max_read max_write minorversion mountport mountproto nconnect"
    " negative_timeout nfsvers noac noacl noatime noauto nocto nodev nodiratime nofail nofsc"
    " nointr nolock nordirplus norelatime noresvport nosharecache nosuid nouser port proto"
    " rdirplus rdma relatime resvport retrans retry rsize sec sharecache soft softerr"
    " strictatime sync tcp timeo tmp-path udp uid umask use-https user users vers wsize ";

bool has_no_effect(const std::string& name) {
    return without_effect.find(" " + name + " ") != std::string_view::npos;
}

// "-oro" and "--use-https=true" without what makes them options of a command.
std::string_view bare(std::string_view word) {
    if (word.starts_with("--")) return word.substr(2);
    if (word.starts_with("-o")) return word.substr(2);
    return word;
}

void read_word(std::string_view word, MountOptions& options) {
    const std::string name(word.substr(0, word.find('=')));
    if (word == "ro") {
        options.read_only = true;
    } else if (word == "rw") {
        options.read_only = false;
    } else if (word == "noexec") {
        options.no_execute = true;
    } else if (has_no_effect(name)) {
        options.ignored.push_back(name);
    } else {
        // Not its value, which may be a password.
        options.unknown.push_back(name);
    }
}

}  // namespace

MountOptions read_mount_options(const std::optional<std::string>& text) {
    MountOptions options;
    if (!text) return options;
    std::string words = *text;
    std::replace_if(
        words.begin(), words.end(), [](char c) { return c == '\t' || c == '\n' || c == ','; }, ' ');
    for (const std::string_view word : base::split(words, ' ')) {
        if (const std::string_view option = bare(word); !option.empty()) read_word(option, options);
    }
    return options;
}

std::string_view mount_options_help() {
    return "ro, rw and noexec have an effect; other options of mount(8), nfs(5) and blobfuse that "
           "say how, not what, is mounted are passed over";
}

}  // namespace batchai::plan
