// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/command.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::image {

namespace {

constexpr std::size_t output_limit = 16UL << 20U;

std::string package_of(const std::string& program) {
    return program == "mksquashfs" ? "squashfs-tools" : program;
}

}  // namespace

base::Result<void> check_interrupted(const Watch& watch) {
    if (!watch.interrupted || !watch.interrupted()) return {};
    return base::fail("interrupted; nothing is left behind", {}, {}, interrupted_code);
}

base::Result<base::Completed> run(const Command& command, const Watch& watch) {
    const auto tick = [&]() -> base::Result<void> {
        TRY(check_interrupted(watch));
        if (watch.tick) watch.tick();
        return {};
    };
    // A command that ends within the first period would report no progress otherwise.
    TRY(tick());
    const std::string package = package_of(command.arguments.front());
    return base::run(command.arguments,
                     {.environment = {},
                      .standard_input = {},
                      .deadline = command.deadline,
                      .output_limit = output_limit,
                      .keeps_end = true,
                      .own_group = true,
                      .ends_with_us = true,
                      .signals = base::Signals::unblocked,
                      .missing_hint = fmt::format("the package {} has it", package),
                      .tick = tick});
}

namespace {

enum class Fault {
    unknown,
    no_policy,
    plain_http,
    bad_certificate,
    unauthorized,
    not_found,
    rate_limit,
    wrong_platform,
    unreachable,
};

struct Sign {
    std::string_view words;  // in lower case
    Fault fault;
};

// The first match counts. The order matters: a registry may say "unauthorized" where it means "not
// found", and "pinging container registry" precedes every network fault.
constexpr std::array signs = {
    Sign{"policy.json", Fault::no_policy},
    Sign{"server gave http response to https client", Fault::plain_http},
    Sign{"x509:", Fault::bad_certificate},
    Sign{"toomanyrequests", Fault::rate_limit},
    Sign{"too many requests", Fault::rate_limit},
    Sign{"no image found in manifest list for architecture", Fault::wrong_platform},
    Sign{"no image found in image index for architecture", Fault::wrong_platform},
    Sign{"manifest unknown", Fault::not_found},
    Sign{"name unknown", Fault::not_found},
    Sign{"repository name not known", Fault::not_found},
    Sign{"no descriptor found for reference", Fault::not_found},
    Sign{"no such file or directory", Fault::not_found},
    Sign{"unable to retrieve auth token", Fault::unauthorized},
    Sign{"unauthorized", Fault::unauthorized},
    Sign{"authentication required", Fault::unauthorized},
    Sign{"invalid username/password", Fault::unauthorized},
    Sign{"is denied", Fault::unauthorized},
    Sign{"403 (forbidden)", Fault::unauthorized},
    Sign{"status code 404", Fault::not_found},
    Sign{"statuscode: 404", Fault::not_found},
    Sign{"not found", Fault::not_found},
    Sign{"no such host", Fault::unreachable},
    Sign{"connection refused", Fault::unreachable},
    Sign{"connection reset", Fault::unreachable},
    Sign{"no route to host", Fault::unreachable},
    Sign{"network is unreachable", Fault::unreachable},
    Sign{"i/o timeout", Fault::unreachable},
    Sign{"tls handshake timeout", Fault::unreachable},
    Sign{"context deadline exceeded", Fault::unreachable},
    Sign{"server misbehaving", Fault::unreachable},
    Sign{"temporary failure in name resolution", Fault::unreachable},
    Sign{"dial tcp", Fault::unreachable},
};

Fault fault_of(std::string_view message) {
    const std::string lower = base::lower(message);
    const auto* const sign = std::find_if(signs.begin(), signs.end(), [&](const Sign& candidate) {
        return lower.find(candidate.words) != std::string::npos;
    });
    return sign == signs.end() ? Fault::unknown : sign->fault;
}

// Go chains errors as "a: b: c". Returns the part that begins with these words, in whatever case;
// the whole message if it does not have them.
std::string_view part_from(std::string_view message, std::string_view words) {
    const std::size_t at = base::lower(message).find(words);
    return at == std::string::npos ? message : message.substr(at);
}

base::Error unauthorized(const Question& question) {
    if (question.credential_source == "none")
        return {fmt::format("{} does not give the image to everybody, or does not have it, and no "
                            "credentials for it were found",
                            question.registry),
                question.image,
                fmt::format("check the name; else give containerSettings.imageSourceRegistry."
                            "credentials in the job file, or `docker login {}`",
                            question.registry),
                base::ExitCode::refused};
    return {fmt::format("{} refuses the credentials from {}", question.registry,
                        question.credential_source),
            question.image, "check user and password, and that this user may read the image",
            base::ExitCode::refused};
}

base::Error not_found(const Question& question, const std::string& message) {
    if (question.registry.empty())
        return {message, question.image, "check the path, and the name behind the colon",
                base::ExitCode::not_found};
    return {fmt::format("{} has no such image", question.registry), question.image,
            question.registry == "docker.io"
                ? "check name and tag; images of other registries begin with the registry's name"
                : "check name and tag",
            base::ExitCode::not_found};
}

}  // namespace

std::string last_message(std::string_view standard_error) {
    const std::string_view all = base::trim(standard_error);
    const std::string_view line = all.substr(all.rfind('\n') + 1);
    constexpr std::string_view key = " msg=\"";
    const std::size_t start = line.find(key);
    if (start == std::string_view::npos) return std::string(line);
    std::string out;
    for (std::size_t at = start + key.size(); at < line.size() && line[at] != '"'; ++at) {
        if (line[at] == '\\' && at + 1 < line.size()) ++at;
        out += line[at];
    }
    return out;
}

base::Error explain(std::string_view standard_error, const Question& question) {
    const std::string message = last_message(standard_error);
    const std::string& registry = question.registry;
    switch (fault_of(message)) {
        case Fault::no_policy:
            return {message, question.image,
                    "install the package containers-common (golang-github-containers-common), "
                    "which has /etc/containers/policy.json",
                    base::ExitCode::failed};
        case Fault::plain_http:
            return {fmt::format("{} does not use TLS", registry), question.image,
                    "the admin adds it to insecure_registries in site.lua, or gives it TLS",
                    base::ExitCode::failed};
        case Fault::bad_certificate:
            return {fmt::format("the certificate of {} cannot be trusted: {}", registry,
                                part_from(message, "x509:")),
                    question.image,
                    fmt::format("put its authority's certificate at /etc/containers/certs.d/{0}/"
                                "ca.crt or ~/.config/containers/certs.d/{0}/ca.crt",
                                registry),
                    base::ExitCode::failed};
        case Fault::unauthorized:
            return unauthorized(question);
        case Fault::not_found:
            return not_found(question, message);
        case Fault::rate_limit:
            return {fmt::format("{} limits the request rate (too many requests)", registry),
                    question.image,
                    fmt::format("wait, or log in: `docker login {}`; credentials now: {}", registry,
                                question.credential_source),
                    base::ExitCode::failed};
        case Fault::wrong_platform:
            return {message, question.image, "take an image that is made for this machine",
                    base::ExitCode::not_found};
        case Fault::unreachable:
            return {fmt::format("{} cannot be reached from this host: {}", registry,
                                part_from(message, "dial tcp")),
                    question.image,
                    "is the registry's name right, and does the way to it need a proxy "
                    "(HTTPS_PROXY)?",
                    base::ExitCode::failed};
        case Fault::unknown:
            break;
    }
    return {message.empty() ? "skopeo failed without a message" : "skopeo: " + message,
            question.image,
            {},
            base::ExitCode::failed};
}

}  // namespace batchai::image
