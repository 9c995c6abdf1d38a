// SPDX-License-Identifier: GPL-2.0-or-later
#include "site/table_reader.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>
#include <lua.hpp>

#include "base/text.hpp"
#include "site/sandbox.hpp"

namespace batchai::site {

namespace {

void stop(lua_State* state, lua_Debug*) {
    luaL_error(state, "runs for more than %d instructions", sandbox_instructions);
}

// Removes the functions from their libraries, which are globals.
void withhold(lua_State* state) {
    for (const std::string_view name : sandbox_withheld) {
        const std::size_t dot = name.find('.');
        lua_getglobal(state, std::string(name.substr(0, dot)).c_str());
        lua_pushnil(state);
        lua_setfield(state, -2, std::string(name.substr(dot + 1)).c_str());
        lua_pop(state, 1);
    }
}

// Replaces the library functions of which one call can run for ever; see sandbox.lua.
void bound(lua_State* state) {
    if (luaL_loadbufferx(state, sandbox_bounds.data(), sandbox_bounds.size(), "=sandbox.lua",
                         "t") != LUA_OK)
        lua_error(state);
    lua_getglobal(state, "string");
    lua_getglobal(state, "table");
    lua_pushinteger(state, sandbox_pattern_steps);
    lua_pushinteger(state, static_cast<lua_Integer>(sandbox_memory));
    lua_call(state, 4, 0);
}

int open_libraries(lua_State* state) {
    luaL_requiref(state, "_G", luaopen_base, 1);
    luaL_requiref(state, "string", luaopen_string, 1);
    luaL_requiref(state, "table", luaopen_table, 1);
    luaL_requiref(state, "math", luaopen_math, 1);
    withhold(state);
    bound(state);
    lua_createtable(state, 0, static_cast<int>(sandbox_globals.size()));
    for (const char* const name : sandbox_globals) {
        lua_getglobal(state, name);
        lua_setfield(state, -2, name);
    }
    lua_rawseti(state, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    return 0;
}

}  // namespace

void SandboxedLua::Close::operator()(lua_State* state) const {
    lua_close(state);
}

void* SandboxedLua::allocate(void* budget, void* block, std::size_t old_size,
                             std::size_t new_size) {
    auto& bounds = *static_cast<Budget*>(budget);
    // Without a block, Lua passes a type tag as old_size.
    const std::size_t held = block == nullptr ? 0 : old_size;
    if (new_size == 0) {
        std::free(block);
        bounds.used -= held;
        return nullptr;
    }
    if (bounds.used - held + new_size > bounds.limit) return nullptr;
    void* moved = std::realloc(block, new_size);
    if (moved != nullptr) bounds.used += new_size - held;
    return moved;
}

SandboxedLua::SandboxedLua() : budget_(std::make_unique<Budget>()), state_(nullptr) {
    budget_->limit = sandbox_memory;
    state_.reset(lua_newstate(allocate, budget_.get()));
}

base::Result<void> SandboxedLua::run(std::string_view text, const std::string& name) {
    const auto failed = [&](std::string what) {
        return base::fail(std::move(what), name, {}, base::ExitCode::bad_job_file);
    };
    lua_State* lua = state();
    if (lua == nullptr) return failed("no memory for Lua");
    lua_pushcfunction(lua, open_libraries);
    int code = lua_pcall(lua, 0, 0, 0);
    // With "=", Lua's messages show the name unchanged. "t" refuses byte code, which can crash Lua.
    const std::string chunk_name = "=" + name;
    if (code == LUA_OK)
        code = luaL_loadbufferx(lua, text.data(), text.size(), chunk_name.c_str(), "t");
    if (code == LUA_OK) {
        lua_sethook(lua, stop, LUA_MASKCOUNT, sandbox_instructions);
        code = lua_pcall(lua, 0, 1, 0);
        lua_sethook(lua, nullptr, 0, 0);
    }
    // From here on, values are read outside of a protected call, where Lua must not run out of
    // memory.
    budget_->limit = std::numeric_limits<std::size_t>::max();
    if (code == LUA_OK) return {};
    std::string message = "unknown error";
    if (lua_type(lua, -1) == LUA_TSTRING) message = lua_tostring(lua, -1);
    // Lua puts "site.lua:3: " before the message, but the error's `where` already names the file.
    if (message.starts_with(name + ":")) message = "line " + message.substr(name.size() + 1);
    return failed(std::move(message));
}

}  // namespace batchai::site

namespace batchai::site {

namespace {

std::string text_at(lua_State* state, int index) {
    std::size_t length = 0;
    const char* bytes = lua_tolstring(state, index, &length);
    return {bytes, length};
}

bool has_dots(std::string_view path) {
    const auto components = base::split(path, '/');
    return std::any_of(components.begin(), components.end(),
                       [](std::string_view part) { return part == "." || part == ".."; });
}

bool has_control_character(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace

std::string TableReader::name_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void TableReader::fail(std::string_view key, std::string what, std::string hint) {
    if (fault_) return;
    fault_ = base::Error{fmt::format("{}: {}", name_of(key), what),
                         {},
                         std::move(hint),
                         base::ExitCode::bad_job_file};
}

bool TableReader::push(std::string_view key, int type, std::string_view wanted) {
    known_.emplace_back(key);
    if (fault_) return false;
    lua_pushlstring(state_, key.data(), key.size());
    const int found = lua_rawget(state_, index_);
    if (found == type) return true;
    if (found != LUA_TNIL)
        fail(key, fmt::format("is a {}, must be {}", lua_typename(state_, found), wanted));
    lua_pop(state_, 1);
    return false;
}

void TableReader::text(std::string_view key, std::string& value) {
    if (!push(key, LUA_TSTRING, "a string")) return;
    std::string read = text_at(state_, -1);
    lua_pop(state_, 1);
    if (has_control_character(read)) return fail(key, "holds a control character");
    value = std::move(read);
}

void TableReader::text_or_number(std::string_view key, std::string& value) {
    known_.emplace_back(key);
    if (fault_) return;
    lua_pushlstring(state_, key.data(), key.size());
    const int found = lua_rawget(state_, index_);
    if (found == LUA_TNUMBER) {
        // 3.0 is the same number as 3, and the one that people write: 1e3 would be "1000.0".
        int exact = 0;
        const lua_Integer whole = lua_tointegerx(state_, -1, &exact);
        value = exact != 0 ? std::to_string(whole) : fmt::format("{}", lua_tonumber(state_, -1));
        lua_pop(state_, 1);
        return;
    }
    lua_pop(state_, 1);
    if (found != LUA_TBOOLEAN) return text(key, value);
    fail(key, "is a boolean, must be a string or a number",
         "write \"1\" or \"0\", \"true\" or \"false\", as the program that reads it wants it");
}

void TableReader::flag(std::string_view key, bool& value) {
    if (!push(key, LUA_TBOOLEAN, "true or false")) return;
    value = lua_toboolean(state_, -1) != 0;
    lua_pop(state_, 1);
}

void TableReader::count(std::string_view key, int& value) {
    if (!push(key, LUA_TNUMBER, "a whole number")) return;
    int exact = 0;
    const lua_Integer number = lua_tointegerx(state_, -1, &exact);
    lua_pop(state_, 1);
    if (exact == 0 || number < 0 || number > 1000000)
        return fail(key, "must be a whole number from 0 to 1000000");
    value = static_cast<int>(number);
}

void TableReader::limit(std::string_view key, std::optional<int>& value) {
    int read = -1;
    count(key, read);
    if (read == 0) return fail(key, "must be at least 1");
    if (read > 0) value = read;
}

void TableReader::words(std::string_view key, std::vector<std::string>& value) {
    if (!push(key, LUA_TTABLE, "a list of strings")) return;
    value.clear();
    const auto length = static_cast<lua_Integer>(lua_rawlen(state_, -1));
    for (lua_Integer i = 1; i <= length; ++i) {
        if (lua_rawgeti(state_, -1, i) == LUA_TSTRING) {
            value.push_back(text_at(state_, -1));
            if (has_control_character(value.back()))
                fail(key, fmt::format("entry {} holds a control character", i));
        } else {
            fail(key, fmt::format("entry {} is not a string", i));
        }
        lua_pop(state_, 1);
    }
    refuse_other_keys(key, length);
    lua_pop(state_, 1);
}

void TableReader::refuse_other_keys(std::string_view key, long long length) {
    lua_pushnil(state_);
    while (lua_next(state_, -2) != 0) {
        lua_pop(state_, 1);
        if (lua_isinteger(state_, -1) != 0) {
            const lua_Integer index = lua_tointeger(state_, -1);
            if (index < 1 || index > length)
                fail(key, fmt::format("entry {} is not part of the list", index));
        } else if (lua_type(state_, -1) == LUA_TSTRING) {
            fail(key, fmt::format("is a list and cannot have the key \"{}\"", text_at(state_, -1)));
        } else {
            fail(key, "has a key that is not part of the list");
        }
    }
}

void TableReader::absolute_path(std::string_view key, std::string& value) {
    std::string path = value;
    text(key, path);
    if (fault_) return;
    if (!path.empty() && !path.starts_with('/'))
        return fail(key, fmt::format("\"{}\" is not an absolute path", path));
    if (has_dots(path)) return fail(key, fmt::format("\"{}\" has a . or .. component", path));
    value = std::move(path);
}

void TableReader::directory(std::string_view key, std::string& value) {
    absolute_path(key, value);
    if (value.empty()) return fail(key, "is missing; it must be an absolute path");
    if (value.find('%') != std::string::npos) fail(key, "holds a %; use a plain path here");
}

void TableReader::optional_directory(std::string_view key, std::string& value) {
    absolute_path(key, value);
    if (value.find('%') != std::string::npos) fail(key, "holds a %; use a plain path here");
}

void TableReader::directory_of_user(std::string_view key, std::string& value) {
    absolute_path(key, value);
    const std::size_t percent = value.find('%');
    if (percent == std::string::npos) return;
    if (value.compare(percent, 2, "%u") != 0 || value.find('%', percent + 1) != std::string::npos)
        fail(key, fmt::format("\"{}\" may contain % only as a single %u", value),
             "%u stands for the user's name");
}

void TableReader::directory_pattern(std::string_view key, std::string& value) {
    absolute_path(key, value);
    if (value.empty()) return;
    const std::size_t percent = value.find('%');
    const bool one_share = percent != std::string::npos && value.compare(percent, 2, "%s") == 0 &&
                           value.find('%', percent + 1) == std::string::npos;
    if (!one_share)
        fail(key, fmt::format("\"{}\" must contain exactly one %s", value),
             "%s stands for the share or container, so that each has its own directory");
}

std::vector<std::string> TableReader::keys(int table, std::string_view of) {
    std::vector<std::string> names;
    lua_pushnil(state_);
    while (lua_next(state_, table) != 0) {
        lua_pop(state_, 1);
        // lua_tolstring must not be used on a number key: it would change the key, which breaks
        // lua_next.
        if (lua_type(state_, -1) == LUA_TSTRING) {
            names.push_back(text_at(state_, -1));
        } else {
            fail(of, "has an entry without a name");
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

void TableReader::pairs(std::string_view key,
                        std::vector<std::pair<std::string, std::string>>& value) {
    if (!push(key, LUA_TTABLE, "a table of strings")) return;
    const int table = lua_gettop(state_);
    TableReader entries(state_, table, name_of(key), fault_);
    for (const std::string& name : keys(table, key)) {
        std::string entry;
        entries.text_or_number(name, entry);
        value.emplace_back(name, std::move(entry));
    }
    lua_settop(state_, table - 1);
}

void TableReader::inside(std::string_view key,
                         const std::function<void(TableReader& entry)>& read) {
    if (!push(key, LUA_TTABLE, "a table")) return;
    const int table = lua_gettop(state_);
    TableReader entry(state_, table, name_of(key), fault_);
    read(entry);
    entry.finish();
    lua_settop(state_, table - 1);
}

void TableReader::each(
    std::string_view key,
    const std::function<void(const std::string& name, TableReader& entry)>& read) {
    if (!push(key, LUA_TTABLE, "a table")) return;
    const int table = lua_gettop(state_);
    TableReader entries(state_, table, name_of(key), fault_);
    for (const std::string& name : keys(table, key)) {
        if (!entries.push(name, LUA_TTABLE, "a table")) continue;
        TableReader entry(state_, lua_gettop(state_), entries.name_of(name), fault_);
        read(name, entry);
        entry.finish();
        lua_settop(state_, table);
    }
    lua_settop(state_, table - 1);
}

void TableReader::finish() {
    if (fault_) return;
    const std::vector<std::string_view> known(known_.begin(), known_.end());
    for (const std::string& name : keys(index_, path_)) {
        if (std::find(known.begin(), known.end(), name) != known.end()) continue;
        std::string what = "unknown key";
        if (const auto meant = base::nearest(name, known))
            what += fmt::format("; did you mean \"{}\"?", *meant);
        return fail(name, std::move(what));
    }
}

}  // namespace batchai::site
