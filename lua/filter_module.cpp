// SPDX-License-Identifier: GPL-2.0-or-later
//
// The Lua module that cli_filter.lua loads into sbatch, srun and salloc. It hands a job file over
// and returns the options that the command needs for the allocation that the file asks for.
// `batchai hand-over` does the work in a process of its own, because it reads site.lua with another
// version of Lua than Slurm's. In one process, the two would use each other's functions.

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <lua.hpp>
#include <unistd.h>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "spank/protocol.h"

namespace {

using batchai::base::Arguments;
using batchai::base::Result;

// The deadline is long because an image may be imported first.
constexpr std::chrono::hours deadline{24};

void push(lua_State* state, std::string_view text) {
    lua_pushlstring(state, text.data(), text.size());
}

// Returns the named field of the table at index 1; empty if there is none.
std::string field(lua_State* state, const char* name) {
    lua_getfield(state, 1, name);
    std::size_t length = 0;
    const char* const text = lua_tolstring(state, -1, &length);
    std::string out = text == nullptr ? std::string() : std::string(text, length);
    lua_pop(state, 1);
    return out;
}

// Removes the variable from the environment that the job gets, and overwrites the memory that /proc
// shows of it.
void remove_secret(const char* name) {
    if (char* const value = std::getenv(name)) explicit_bzero(value, std::strlen(value));
    unsetenv(name);
}

// Takes the output of `batchai hand-over`: lines "NAME=value" of the plan, then lines
// "--option=value". What the first lines say goes to batchai.so, which runs later in the same
// process, in an environment variable. The options are pushed onto the Lua stack, each as a table
// with "name" and "value". Returns false if the plan is missing or the variable cannot be set.
bool take_answer(lua_State* state, const std::string& lines) {
    std::string plan;
    std::string digest;
    std::string declaration;
    std::string secrets;
    lua_newtable(state);
    int count = 0;
    for (std::string_view line : batchai::base::split(lines, '\n')) {
        const std::size_t equals = line.find('=');
        if (equals == std::string_view::npos) continue;
        const std::string_view name = line.substr(0, equals);
        const std::string_view value = line.substr(equals + 1);
        if (name == BATCHAI_PLAN_VARIABLE) plan = value;
        if (name == BATCHAI_DIGEST_VARIABLE) digest = value;
        if (name == BATCHAI_DECLARATION_VARIABLE) declaration = value;
        if (name == BATCHAI_SECRET_LINE) {
            remove_secret(std::string(value).c_str());
            secrets += (secrets.empty() ? "" : ",") + std::string(value);
        }
        if (!name.starts_with("--")) continue;
        lua_createtable(state, 0, 2);
        push(state, name.substr(2));
        lua_setfield(state, -2, "name");
        push(state, value);
        lua_setfield(state, -2, "value");
        lua_rawseti(state, -2, ++count);
    }
    if (plan.empty() || digest.empty()) return false;
    const std::string marker =
        std::to_string(getpid()) + " " + digest + " " + plan + "\n" + declaration;
    const bool noted = secrets.empty()
                           ? unsetenv(BATCHAI_SECRET_VARIABLES_VARIABLE) == 0
                           : setenv(BATCHAI_SECRET_VARIABLES_VARIABLE, secrets.c_str(), 1) == 0;
    return noted && setenv(BATCHAI_HANDED_OVER_VARIABLE, marker.c_str(), 1) == 0;
}

using Options = std::map<std::string, std::string>;

// Reads what slurm.json_cli_options() returned: the options that are set. An empty text has none.
Result<Options> options_in(const std::string& text) {
    Options options;
    if (text.empty()) return options;
    // Slurm copies what the user typed unchanged, so the text may not be UTF-8.
    const auto parsed = batchai::base::parse_json(text, {});
    if (!parsed)
        return batchai::base::fail("an option of this command is not UTF-8 text: " +
                                   parsed.error().what);
    if (!parsed->is_object()) return options;
    for (const auto& [name, value] : *parsed->object()) {
        if (const std::string* const word = value.string()) options.emplace(name, *word);
    }
    return options;
}

// Returns the texts of the named list in the table at index 1.
std::vector<std::string> texts(lua_State* state, const char* name) {
    std::vector<std::string> out;
    lua_getfield(state, 1, name);
    for (int number = 1; lua_istable(state, -1); ++number) {
        lua_rawgeti(state, -1, number);
        std::size_t length = 0;
        const char* const text = lua_tolstring(state, -1, &length);
        if (text != nullptr) out.emplace_back(text, length);
        lua_pop(state, 1);
        if (text == nullptr) break;
    }
    lua_pop(state, 1);
    return out;
}

// Returns the defaults of the site: of each pair of texts, what the second has and the first not.
Result<Options> default_options(lua_State* state) {
    Options defaults;
    const std::vector<std::string> pairs = texts(state, "defaults");
    for (std::size_t at = 0; at + 1 < pairs.size(); at += 2) {
        const Options before = TRY(options_in(pairs[at]));
        for (const auto& [name, value] : TRY(options_in(pairs[at + 1]))) {
            const auto old = before.find(name);
            if (old == before.end() || old->second != value) defaults.insert_or_assign(name, value);
        }
    }
    return defaults;
}

// Returns the options that the user has set, as JSON. Those that have the site's default value
// count as not set. The script of --wrap and the arguments of the user's program are left out,
// since they can be very long and are not needed.
Result<std::string> given_options(lua_State* state) {
    const Options defaults = TRY(default_options(state));
    batchai::base::Value::Object kept;
    for (const auto& [name, value] : TRY(options_in(field(state, "given")))) {
        const auto usual = defaults.find(name);
        const bool is_default = usual != defaults.end() && usual->second == value;
        if (!is_default && name != "wrap") kept.emplace_back(name, value);
    }
    return batchai::base::format_json(kept);
}

Result<batchai::base::Completed> run_hand_over(lua_State* state) {
    Arguments arguments{BATCHAI_LAUNCHER, "hand-over", "--job-json=" + field(state, "file"),
                        "--door=" + field(state, "door")};
    if (!field(state, "ignore_container").empty()) arguments.emplace_back("--ignore-container");
    if (const std::string image = field(state, "image"); !image.empty())
        arguments.push_back("--job-image=" + image);
    batchai::base::RunOptions options;
    options.standard_input = TRY(given_options(state));
    options.deadline = deadline;
    options.show_messages = true;
    return batchai::base::run(arguments, options);
}

// hand_over{ file, door, given, defaults, ignore_container, image } returns the list of options, or
// nil and a message for the user. The message ends with a newline; it is empty if batchai has
// already said what is wrong. Lets no exception escape.
int hand_over(lua_State* state) {
    luaL_checktype(state, 1, LUA_TTABLE);
    std::string fault;
    try {
        const auto done = run_hand_over(state);
        if (done && done->exit_code == 0 && take_answer(state, done->standard_output)) return 1;
        if (!done)
            fault = "batchai: error: " + done.error().text() + "\n";
        else if (done->exit_code == 0)
            fault = "batchai: error: " BATCHAI_LAUNCHER
                    " and the command-line filter are from different versions\n"
                    "hint: install both from one version\n";
    } catch (const std::exception& error) {
        fault = std::string("batchai: error: ") + error.what() + "\n";
    }
    lua_pushnil(state);
    push(state, fault);
    return 2;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int luaopen_batchai_cli_filter(lua_State* state);

extern "C" int luaopen_batchai_cli_filter(lua_State* state) {
    lua_createtable(state, 0, 1);
    lua_pushcfunction(state, hand_over);
    lua_setfield(state, -2, "hand_over");
    return 1;
}
