// SPDX-License-Identifier: GPL-2.0-or-later
#include "user/config.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

// Errors are values here, so the parser returns its error.
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "job/schema/checks.hpp"
#include "job/schema/faults.hpp"
#include "job/schema/field_table.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::user {

namespace {

using job::Fault;

constexpr std::size_t size_limit = 64UL << 10U;

constexpr std::string_view defaults_table = "defaults";
constexpr std::string_view slurm_table = "slurm";
constexpr std::array<std::string_view, 2> tables{defaults_table, slurm_table};

struct DefaultKey {
    std::string_view name;
    std::optional<std::string> ParentOptions::*member;
};
constexpr std::array<DefaultKey, 3> default_keys{{
    {"group", &ParentOptions::group},
    {"workspace", &ParentOptions::workspace},
    {"experiment", &ParentOptions::experiment},
}};

std::vector<std::string_view> keys_of(std::string_view table) {
    std::vector<std::string_view> keys;
    if (table == defaults_table) {
        for (const DefaultKey& key : default_keys)
            keys.push_back(key.name);
    } else {
        for (const job::Field& field : job::slurm_object.fields)
            keys.push_back(field.name);
    }
    return keys;
}

job::Position position_of(const toml::source_region& region, std::size_t length = 1) {
    if (region.begin.line == region.end.line && region.end.column > region.begin.column)
        length = region.end.column - region.begin.column;
    return {.line = region.begin.line, .column = region.begin.column, .length = length};
}

class Reader {
  public:
    ParsedUserConfig read(std::string_view text) {
        const toml::parse_result parsed = toml::parse(text);
        if (!parsed) {
            add(Fault::syntax, position_of(parsed.error().source()),
                std::string(parsed.error().description()));
            return std::move(out_);
        }
        for (const auto& [key, node] : parsed.table()) {
            if (std::find(tables.begin(), tables.end(), key.str()) == tables.end()) {
                unknown(key, tables, {});
            } else if (const toml::table* const table = node.as_table()) {
                for (const auto& [name, value] : *table)
                    read_value(key.str(), name, value);
            } else {
                add(Fault::wrong_type, position_of(key.source(), key.length()),
                    fmt::format("{} must be a table", job::quote(key.str())),
                    fmt::format("write [{}] on a line of its own", key.str()));
            }
        }
        return std::move(out_);
    }

  private:
    void add(Fault fault, job::Position position, std::string message, std::string hint = {}) {
        out_.diagnostics.push_back(
            job::make_diagnostic(fault, position, std::move(message), std::move(hint)));
    }

    template <typename Names>
    void unknown(const toml::key& key, const Names& known, std::string_view otherwise) {
        const auto guess = base::nearest(key.str(), known);
        add(Fault::unknown_key, position_of(key.source(), key.length()),
            fmt::format("unknown key {}", job::quote(key.str())),
            guess ? fmt::format("did you mean {}?", job::quote(*guess)) : std::string(otherwise));
    }

    void read_value(std::string_view table, const toml::key& key, const toml::node& value) {
        const std::size_t faults = out_.diagnostics.size();
        if (table == defaults_table)
            read_default(key, value);
        else
            read_slurm(key, value);
        if (out_.diagnostics.size() == faults)
            out_.config.lines.emplace(fmt::format("{}.{}", table, key.str()),
                                      key.source().begin.line);
    }

    void read_default(const toml::key& key, const toml::node& value) {
        for (const DefaultKey& known : default_keys) {
            if (known.name != key.str()) continue;
            if (auto text = checked_text(key, value, job::Check::word))
                out_.config.defaults.*known.member = std::move(*text);
            return;
        }
        unknown(key, keys_of(defaults_table), {});
    }

    void read_slurm(const toml::key& key, const toml::node& value) {
        const job::Field* const field = job::slurm_object.find(key.str());
        if (field == nullptr) {
            refuse_slurm(key);
        } else if (field->kind == job::Kind::boolean) {
            if (const auto flag = value.value_exact<bool>())
                field->access.store(&out_.config.slurm, *flag);
            else
                add(Fault::wrong_type, position_of(value.source()),
                    fmt::format("{} must be true or false", job::quote(key.str())));
        } else if (auto text = checked_text(key, value, field->check)) {
            field->access.store(&out_.config.slurm, std::move(*text));
        }
    }

    void refuse_slurm(const toml::key& key) {
        for (const job::RefusedKey& refused : job::slurm_object.refused) {
            if (refused.name != key.str()) continue;
            add(Fault::misplaced, position_of(key.source(), key.length()),
                fmt::format("{} cannot be set here", job::quote(key.str())),
                std::string(refused.instead));
            return;
        }
        unknown(key, keys_of(slurm_table), job::slurm_object.other_keys);
    }

    // Returns nothing after reporting a fault.
    std::optional<std::string> checked_text(const toml::key& key, const toml::node& value,
                                            job::Check check) {
        auto text = value.value_exact<std::string>();
        if (!text) {
            add(Fault::wrong_type, position_of(value.source()),
                fmt::format("{} must be a string", job::quote(key.str())),
                "write it in double quotes");
            return std::nullopt;
        }
        if (auto failure = job::check_text(check, *text)) {
            add(failure->fault, position_of(value.source()),
                fmt::format("{} {}", job::quote(key.str()), failure->message),
                std::move(failure->hint));
            return std::nullopt;
        }
        return text;
    }

    ParsedUserConfig out_;
};

}  // namespace

ParsedUserConfig parse_user_config(std::string_view text) {
    return Reader().read(text);
}

std::vector<std::string> user_config_keys() {
    std::vector<std::string> out;
    for (const std::string_view table : tables) {
        for (const std::string_view key : keys_of(table))
            out.push_back(fmt::format("{}.{}", table, key));
    }
    return out;
}

std::optional<job::Value> setting(const UserConfig& config, std::string_view key) {
    const std::string_view table = key.substr(0, key.find('.'));
    const std::string_view name = key.substr(std::min(table.size() + 1, key.size()));
    if (table == slurm_table) {
        const job::Field* const field = job::slurm_object.find(name);
        return field == nullptr ? std::nullopt : field->access.load(&config.slurm);
    }
    for (const DefaultKey& known : default_keys) {
        const auto& value = config.defaults.*known.member;
        if (table == defaults_table && known.name == name && value) return job::Value(*value);
    }
    return std::nullopt;
}

namespace {

// Returns the offset in bytes of a place in the text; its columns count characters.
std::size_t offset_of(std::string_view text, const toml::source_position& place) {
    std::size_t at = 0;
    for (std::size_t line = 1; line < place.line; ++line) {
        const std::size_t end = text.find('\n', at);
        if (end == std::string_view::npos) return text.size();
        at = end + 1;
    }
    for (std::size_t column = 1; column < place.column && at < text.size(); ++column)
        at += std::max<std::size_t>(1, job::utf8_sequence(text, at));
    return at;
}

bool is_flag(std::string_view table, std::string_view name) {
    if (table != slurm_table) return false;
    const job::Field* const field = job::slurm_object.find(name);
    return field != nullptr && field->kind == job::Kind::boolean;
}

// Returns the value as TOML, or nothing if it cannot be written on one line.
std::optional<std::string> as_toml(std::string_view value) {
    std::string out = "\"";
    for (const char c : value) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7F) return std::nullopt;
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + "\"";
}

// The parser checks the result, so this function need not know every form of TOML.
std::string put_setting(std::string_view text, std::string_view table, std::string_view name,
                        const std::string& value) {
    std::string out(text);
    const toml::parse_result parsed = toml::parse(text);
    const toml::table* const section = parsed ? parsed.table()[table].as_table() : nullptr;
    const toml::node* const present = section != nullptr ? section->get(name) : nullptr;
    if (present != nullptr) {
        const std::size_t begin = offset_of(text, present->source().begin);
        const std::size_t end = offset_of(text, present->source().end);
        return out.replace(begin, end - begin, value);
    }
    const std::string line = fmt::format("{} = {}\n", name, value);
    if (section != nullptr) {
        const std::size_t end = text.find('\n', offset_of(text, section->source().begin));
        if (end == std::string_view::npos) return fmt::format("{}\n{}", text, line);
        return out.insert(end + 1, line);
    }
    if (!out.empty() && !out.ends_with('\n')) out += '\n';
    return fmt::format("{}{}[{}]\n{}", out, out.empty() ? "" : "\n", table, line);
}

}  // namespace

base::Result<std::string> with_setting(std::string_view text, std::string_view key,
                                       std::string_view value) {
    const auto known = user_config_keys();
    const std::string name(key);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
        const std::vector<std::string_view> views(known.begin(), known.end());
        const auto guess = base::nearest(key, views);
        return base::fail(fmt::format("there is no key {}", job::quote(key)), {},
                          guess ? fmt::format("did you mean {}?", *guess)
                                : "`batchai config set --help` lists the keys",
                          base::ExitCode::usage);
    }
    const std::size_t dot = key.find('.');
    const std::string_view table = key.substr(0, dot);
    const std::string_view last = key.substr(dot + 1);
    const bool flag = is_flag(table, last);
    if (flag && value != "true" && value != "false")
        return base::fail("must be true or false", name, {}, base::ExitCode::usage);
    const auto written = flag ? std::string(value) : as_toml(value);
    if (!written)
        return base::fail("must not contain control characters", name, {}, base::ExitCode::usage);
    // Whether the value itself is good is seen in a file of its own.
    const auto alone = parse_user_config(put_setting({}, table, last, *written));
    if (!alone.diagnostics.empty())
        return base::fail(alone.diagnostics.front().message, name, alone.diagnostics.front().hint,
                          base::ExitCode::usage);
    std::string out = put_setting(text, table, last, *written);
    const auto before = parse_user_config(text);
    const auto after = parse_user_config(out);
    const bool as_meant = after.diagnostics.empty() &&
                          std::all_of(known.begin(), known.end(), [&](const std::string& other) {
                              const auto& wanted = other == name ? alone.config : before.config;
                              return setting(after.config, other) == setting(wanted, other);
                          });
    if (!as_meant)
        return base::fail("the form of the file is not supported for this yet", name,
                          "change the file with an editor");
    return out;
}

base::Result<std::filesystem::path> user_config_path() {
    if (const auto set = base::variable("XDG_CONFIG_HOME"); set && set->starts_with('/'))
        return std::filesystem::path(*set) / "batchai/config.toml";
    const auto home = base::variable("HOME");
    if (!home || !home->starts_with('/'))
        return base::fail("the user has no home directory", "HOME", "set HOME or XDG_CONFIG_HOME");
    return std::filesystem::path(*home) / ".config/batchai/config.toml";
}

base::Result<std::string> read_user_config(const std::filesystem::path& path) {
    const base::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid() && (errno == ENOENT || errno == ENOTDIR)) return std::string();
    struct stat status {};
    if (!file.valid() || fstat(file.get(), &status) != 0) return base::system_error("read", path);
    if (!S_ISREG(status.st_mode)) return base::fail("is not a file", path);
    if (status.st_uid != geteuid() && status.st_uid != 0)
        return base::fail(fmt::format("belongs to user {}, not to you or root", status.st_uid),
                          path, "remove it, or set XDG_CONFIG_HOME");
    if ((status.st_mode & 022U) != 0)
        return base::fail("can be written to by other users", path,
                          fmt::format("chmod go-w {}", base::shell_quote(path.string())));
    if (static_cast<std::size_t>(status.st_size) > size_limit)
        return base::fail("is larger than 64 KiB", path);
    return base::end_of_file(file, 0, size_limit);
}

namespace {

base::Result<UserConfig> load_user_config() {
    // A process without a home directory has no defaults of a user.
    const auto path = user_config_path();
    if (!path) return UserConfig{};
    const std::string text = TRY(read_user_config(*path));
    auto parsed = parse_user_config(text);
    if (parsed.diagnostics.empty()) return std::move(parsed.config);
    const std::string report = job::render_all(parsed.diagnostics, path->string(), text);
    return base::fail(fmt::format("cannot be used\n{}", base::trim(report)), path->string(), {},
                      base::ExitCode::bad_job_file);
}

}  // namespace

const base::Result<UserConfig>& user_config() {
    static const base::Result<UserConfig> loaded = load_user_config();
    return loaded;
}

namespace {

// Returns the path of the file itself, if the path of the user's configuration is a link.
std::filesystem::path real_path(const std::filesystem::path& path) {
    std::error_code code;
    const auto real = std::filesystem::weakly_canonical(path, code);
    return code ? path : real;
}

}  // namespace

base::Result<void> change_user_config(const std::vector<std::string>& settings) {
    TRY(user_config());
    const auto path = real_path(TRY(user_config_path()));
    const std::string before = TRY(read_user_config(path));
    std::string text = before;
    for (const std::string& word : settings) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos)
            return base::fail("is not KEY=VALUE", word, {}, base::ExitCode::usage);
        auto changed = TRY(with_setting(text, word.substr(0, equals), word.substr(equals + 1)));
        text = std::move(changed);
    }
    if (text == before) return {};
    TRY(base::make_directories(path.parent_path(), 0700));
    struct stat status {};
    const bool present = stat(path.c_str(), &status) == 0;
    return base::write_atomically(path, text, present ? status.st_mode & 0777U : 0600);
}

}  // namespace batchai::user
