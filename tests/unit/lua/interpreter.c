/* SPDX-License-Identifier: GPL-2.0-or-later */
/* interpreter SCRIPT ARG…: runs the script, which gets the arguments as "...". The packages of
 * Debian that have Lua's own interpreter are not needed by anything else here. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>

int main(int argc, char* argv[]) {
    if (argc < 2) {
        fputs("usage: interpreter SCRIPT ARG...\n", stderr);
        return 2;
    }
    lua_State* const state = luaL_newstate();
    if (state == NULL) return 2;
    luaL_openlibs(state);
    int failed = luaL_loadfile(state, argv[1]);
    if (failed == 0) {
        for (int i = 2; i < argc; ++i)
            lua_pushstring(state, argv[i]);
        failed = lua_pcall(state, argc - 2, 0, 0);
    }
    if (failed != 0) {
        const char* const message = lua_tostring(state, -1);
        fprintf(stderr, "%s\n", message == NULL ? "error without a message" : message);
    }
    lua_close(state);
    return failed == 0 ? 0 : 1;
}
