-- SPDX-License-Identifier: GPL-2.0-or-later
-- Runs job_submit.lua as slurmctld does, with a stand-in for Slurm's side. Arguments: job_submit.lua,
-- the path of site.lua in it, which is replaced by that of a temporary file, and a list of files that
-- the launcher reads too.

local script_path, site_path, policies_path = ...
local site_file = os.tmpname()
local script = assert(io.open(script_path)):read("*a"):gsub(site_path:gsub("%p", "%%%0"), function() return site_file end)

local function write_site(text)
    if not text then return os.remove(site_file) end
    local file = assert(io.open(site_file, "w"))
    file:write(text)
    file:close()
end

local logged, told -- what the log of slurmctld and the user get

-- Loads the script anew, as a restart of slurmctld does; `before` and `after` are the site's own
-- text around it.
local function load_script(before, after)
    logged, told = {}, {}
    slurm = {
        SUCCESS = 0, ERROR = -1, NO_VAL = 4294967294, INFINITE = 4294967295,
        ESLURM_ACCESS_DENIED = 2002, ESLURM_INVALID_NODE_COUNT = 2006, ESLURM_INVALID_ACCOUNT = 2045,
        ESLURM_INVALID_TIME_LIMIT = 2051,
        log_error = function(...) table.insert(logged, string.format(...)) end,
        log_user = function(...) table.insert(told, string.format(...)) end,
    }
    slurm_job_submit, slurm_job_modify = nil, nil
    for _, text in ipairs({ before or "", script, after or "" }) do
        assert((loadstring or load)(text, "=job_submit.lua"))()
    end
end

local function job(fields)
    local made = {
        user_name = "alice", user_id = 1000, min_nodes = 2, max_nodes = 2, time_limit = slurm.NO_VAL,
        spank_job_env = {
            [0] = "BATCHAI_DECLARATION=vm_size=NC6 image=docker.io/library/debian:12",
            [1] = "_SLURM_SPANK_OPTION_batchai_job-json=/home/alice/job.json",
        },
        account = "physics",
    }
    for key, value in pairs(fields or {}) do made[key] = value end
    for _, key in ipairs(fields and fields.without or {}) do made[key] = nil end
    return made
end

local function declared(vm_size, image)
    return { spank_job_env = { "BATCHAI_DECLARATION=vm_size=" .. vm_size .. " image=" .. (image or "") } }
end

local partitions = {
    main = { name = "main", flag_default = 1, max_time = 4294967295, default_time = 4294967294 },
    short = { name = "short", flag_default = 0, max_time = 30, default_time = 4294967294 },
    usual = { name = "usual", flag_default = 0, max_time = 600, default_time = 60 },
}

local function submit(fields)
    told = {}
    local made = job(fields)
    return slurm_job_submit(made, partitions, 1000), table.concat(told, "|"), made
end

local function change(fields, record, uid)
    told = {}
    return slurm_job_modify(fields, record, partitions, uid or 1000), table.concat(told, "|")
end

local function with(fields, key, value)
    local made = {}
    for name, old in pairs(fields) do made[name] = old end
    made[key] = value
    return made
end

local function same(got, wanted)
    if got ~= wanted then error("got " .. tostring(got) .. ", wanted " .. tostring(wanted), 2) end
end

local function has(text, part)
    if not text:find(part, 1, true) then error("no \"" .. part .. "\" in \"" .. text .. "\"", 2) end
end

local plain = { spank_job_env = {}, script = "#!/bin/bash\n# batchai run\nhostname\n", min_nodes = 999 }
local policy = [[
local sizes = { NC6 = { nodes = 4, minutes = 120, accounts = { "physics" } } }
return { vm_sizes = { NC6 = {} }, policy = {
    accounts = { "physics", "biology" }, images = { "docker.io/library/*", "/images/*.sqsh" },
    nodes = 8, minutes = 240, users = { bob = { nodes = 16 } }, vm_sizes = sizes } }]]

local tests = {}

function tests.each_rule_refuses_with_one_message()
    write_site(policy)
    load_script()
    local code, text, made = submit()
    same(code, 0)
    same(text, "")
    same(made.time_limit, 120)
    same(made.admin_comment, "batchai:user=alice,vm_size=NC6")
    code, text, made = submit({ min_nodes = 5 })
    same(code, slurm.ESLURM_ACCESS_DENIED)
    has(text, "asks for 5 nodes of NC6; this site lets alice use at most 4")
    same(made.admin_comment, nil)
    same(made.time_limit, slurm.NO_VAL)
    same(made.max_nodes, 2)
    code, text = submit({ time_limit = slurm.INFINITE })
    same(code, slurm.ESLURM_ACCESS_DENIED)
    has(text, "unlimited")
    code, text = submit({ account = "biology" })
    same(code, slurm.ESLURM_ACCESS_DENIED)
    has(text, "account biology is not one of those that this site requires for jobs of NC6")
    code, text = submit({ without = { "account" } })
    has(text, "the job has no account")
    same(submit({ without = { "account" }, default_account = "physics" }), 0)
    code, text = submit({ spank_job_env = { "BATCHAI_DECLARATION=vm_size= image=evil.example/a:1" } })
    same(code, slurm.ESLURM_ACCESS_DENIED)
    has(text, "does not allow the image evil.example/a:1; it allows docker.io/library/*")
    same(submit({ spank_job_env = { "BATCHAI_DECLARATION=vm_size= image=" } }), 0)
    same(submit({ spank_job_env = { "BATCHAI_DECLARATION=vm_size= image=/images/a.sqsh" } }), 0)
    same(submit({ spank_job_env = { "BATCHAI_DECLARATION=vm_size= image=/images/a.sqsh.x" } }), 2002)
    code, text = submit({ min_nodes = 5, account = "x" })
    same(#told, 1)
    has(text, "; the account x")
end

function tests.limits_of_users_replace_those_of_all()
    write_site(policy)
    load_script()
    local sizeless = { "BATCHAI_DECLARATION=vm_size= image=" }
    same(submit({ spank_job_env = sizeless, min_nodes = 9 }), slurm.ESLURM_ACCESS_DENIED)
    same(submit({ spank_job_env = sizeless, min_nodes = 16, user_name = "bob" }), 0)
    same(submit({ spank_job_env = sizeless, min_nodes = 17, user_name = "bob" }), slurm.ESLURM_ACCESS_DENIED)
    same(submit({ min_nodes = 5, user_name = "bob" }), slurm.ESLURM_ACCESS_DENIED)
end

function tests.a_missing_limit_is_filled_in_within_the_partition()
    write_site(policy)
    load_script()
    for words, limit in pairs({
        short = 30, usual = 60, main = 120, ["main,short"] = 30, ["of others"] = 120, [""] = 120,
    }) do
        local _, _, made = submit({ partition = words })
        same(made.time_limit, limit)
    end
    local _, _, made = submit({ time_limit = 7, partition = "short" })
    same(made.time_limit, 7)
    _, _, made = submit({ min_nodes = slurm.NO_VAL, max_nodes = slurm.NO_VAL })
    same(made.max_nodes, 4)
    _, _, made = submit({ min_nodes = 1, max_nodes = 100 })
    same(made.max_nodes, 4)
    write_site("return { policy = { nodes = 8 } }")
    _, _, made = submit({ partition = "short" })
    same(made.time_limit, slurm.NO_VAL)
end

function tests.the_default_partition_says_nothing_about_a_reservation()
    write_site(policy)
    load_script()
    partitions.usual.flag_default, partitions.main.flag_default = 1, 0
    local _, _, plain_made = submit()
    local _, _, made = submit({ reservation = "course" })
    local _, _, named = submit({ reservation = "course", partition = "short" })
    partitions.usual.flag_default, partitions.main.flag_default = 0, 1
    same(plain_made.time_limit, 60)
    same(made.time_limit, 120)
    same(named.time_limit, 30)
end

function tests.scripts_that_run_batchai_are_its_jobs()
    write_site(policy)
    load_script()
    local script = "#!/bin/bash\n#BATCHAI vm_size=NC6 image=evil\nexec '/usr/bin/batchai' run --plan '/p'\n"
    local _, text = submit({ spank_job_env = {}, script = script })
    has(text, "the image evil")
    local code
    code, text = submit({ spank_job_env = {}, script = "#!/bin/sh\nbatchai run --job-json=x\n" })
    same(code, slurm.ESLURM_ACCESS_DENIED)
    has(text, "give --job-json=FILE to the command that submits it")
end

function tests.only_a_call_of_batchai_run_makes_a_script_its_job()
    write_site(policy)
    load_script()
    local function code_of(line)
        local code = submit({ spank_job_env = {}, script = "#!/bin/sh\n" .. line .. "\nx\n", min_nodes = 999 })
        return code
    end
    for _, line in ipairs({
        "batchai runs", "batchai\nrun", "# batchai run", "   # see batchai run", "\t# batchai run",
        "echo 'use batchai run'", "./mybatchai run", "singularity exec batchai run.sh", "cd batchai run-1",
        "batchai_run x", "my-batchai run",
    }) do
        if code_of(line) ~= 0 then error("refused: " .. line) end
    end
    for _, line in ipairs({
        "batchai run", "batchai run\r", "  batchai run x", "exec /opt/bin/batchai run x", "'/a b/batchai' run x",
        '"$B/batchai" run x', "cd /x;batchai run x", "true&&batchai run x", "(batchai  run x)", "a |batchai\trun \\",
        "bash -c 'batchai run --job-json=x'", 'bash -c "batchai run --job-json=x"',
    }) do
        if code_of(line) == 0 then error("accepted: " .. line) end
    end
end

function tests.a_vm_size_that_only_the_controller_knows_has_its_rules()
    write_site(policy)
    load_script()
    same(submit({ spank_job_env = declared("NC6").spank_job_env, min_nodes = 5 }), slurm.ESLURM_ACCESS_DENIED)
    local code, _, made = submit(declared("OTHER"))
    same(code, 0)
    same(made.admin_comment, "batchai:user=alice,vm_size=OTHER")
end

function tests.a_job_without_the_plugin_is_plain_and_its_script_is_looked_at()
    write_site(policy)
    load_script()
    local off = { "_SLURM_SPANK_OPTION_batchai_job-json=/home/alice/job.json", "BATCHAI_DECLARATION=disabled" }
    for _, variables in ipairs({ off, { off[2], off[1] } }) do
        local code, _, made = submit({ spank_job_env = variables, min_nodes = 999 })
        same(code, 0)
        same(made.admin_comment, nil)
        same(submit({ spank_job_env = variables, min_nodes = 9, script = "#!/bin/sh\nbatchai run\n" }),
            slurm.ESLURM_ACCESS_DENIED)
    end
    -- With the option alone the job has not said what it is.
    same(submit({ spank_job_env = { off[1] } }), slurm.ESLURM_ACCESS_DENIED)
end

function tests.names_of_accounts_are_compared_as_slurm_has_them()
    write_site([[return { vm_sizes = { NC6 = {} }, policy = { accounts = { "Physics" },
        vm_sizes = { NC6 = { accounts = { "PHYSICS" } } } } }]])
    load_script()
    for _, name in ipairs({ "physics", "Physics", "PHYSICS" }) do same(submit({ account = name }), 0) end
    same(submit({ without = { "account" }, default_account = "physics" }), 0)
    same(submit({ account = "physic" }), slurm.ESLURM_ACCESS_DENIED)
end

function tests.heterogeneous_jobs_are_refused()
    for _, site in ipairs({ policy, "return {}" }) do
        write_site(site)
        load_script()
        for offset = 0, 1 do
            local code, text = submit({ het_job_offset = offset })
            same(code, slurm.ESLURM_ACCESS_DENIED)
            has(text, "heterogeneous jobs cannot have --job-json")
        end
        same(submit({ het_job_offset = slurm.NO_VAL }), 0)
        same(submit({ het_job_offset = 0, spank_job_env = {} }), 0)
    end
end

function tests.site_lua_is_read_as_the_launcher_reads_it()
    local count = 0
    for line in io.lines(policies_path) do
        if line:sub(1, 1) ~= "#" then
            local wanted, text = line:match("^([^\t]*)\t(.*)$")
            write_site(text)
            load_script()
            local find, rep = string.find, string.rep
            submit()
            local fault = logged[1] or "ok"
            if not fault:find(wanted, 1, true) then error(text .. "\ngives " .. fault) end
            same(string.find, find)
            same(("").rep, rep)
            count = count + 1
        end
    end
    same(count > 40, true)
end

-- Doubling in small steps would take all memory before a check that is made now and then.
function tests.memory_is_bounded_while_a_text_doubles()
    write_site("local text = 'x' while true do text = text .. text end")
    load_script()
    same(submit(), slurm.ESLURM_ACCESS_DENIED)
    has(logged[1], "uses more than 32 MiB")
end

function tests.slurmctlds_strings_are_the_same_after_every_fault()
    local shared = getmetatable("").__index
    for _, text in ipairs({ "return {}", "x(", "error()", "error({})", "while true do end", "return 1",
        "string.find = nil; string.rep = nil; return ('x'):rep(2)", "local function f() return f() + 1 end f()" }) do
        write_site(text)
        load_script()
        submit()
        same(getmetatable("").__index, shared)
        same(debug.gethook(), nil)
    end
    same(("ab"):rep(2), "abab")
    same(type(("").dump), "function")
end

function tests.plain_jobs_pass_whatever_site_lua_is()
    for _, text in ipairs({
        policy, "return", "return 1", "x(", "error({})", "while true do end", "return { policy = 1 }",
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end", "\27Lua",
        "return { policy = { nodes = 'x' } }", "return { policy = { images = { 1 } } }",
        "return { policy = { users = { alice = 1 } } }", "return { policy = { users = { {} } } }",
        "return { policy = { vm_sizes = { A = { nodes = 0 } } } }", "return { policy = { nodes = 1.5 } }",
        "return { policy = { images = { a = 'b' } } }", "return { policy = { typo = 1 } }",
        "os.exit(3)", "io.open('/x', 'w')", "return setmetatable({}, {})", "require('os')",
        "pcall(function() while true do end end)", "debug.sethook()", "dofile('/etc/passwd')",
        "string.dump(tostring)", "math.randomseed(1)", ("x"):rep(1100000),
    }) do
        write_site(text)
        load_script()
        same(submit(plain), 0)
        same(#logged, 0)
        local broken = text ~= policy
        local code = submit()
        if (code ~= 0) ~= broken then error("code " .. code .. " with " .. text:sub(1, 80)) end
        same(submit(plain), 0)
        submit()
        same(#logged, broken and 1 or 0)
        if broken then has(logged[1], "jobs of batchai are refused") end
    end
end

function tests.site_lua_cannot_change_slurmctlds_libraries()
    write_site("string.rep = nil; table.insert = nil; x = 1; return { policy = { nodes = 8 } }")
    load_script()
    same(submit(), 0)
    same(type(string.rep), "function")
    same(type(table.insert), "function")
    same(x, nil)
end

function tests.a_changed_site_lua_applies_at_once()
    write_site("return {}")
    load_script()
    same(submit({ min_nodes = 999 }), 0)
    write_site(policy)
    same(submit({ min_nodes = 999 }), slurm.ESLURM_ACCESS_DENIED)
    write_site("return {")
    same(submit(), slurm.ESLURM_ACCESS_DENIED)
    write_site(policy)
    same(submit(), 0)
end

function tests.without_a_site_lua_there_is_no_policy()
    write_site(nil)
    load_script()
    for _ = 1, 3 do same(submit({ min_nodes = 999 }), 0) end
    same(#logged, 1)
    has(logged[1], "there is no " .. site_file)
end

local function unchanged()
    return { min_nodes = slurm.NO_VAL, max_nodes = slurm.NO_VAL, time_limit = slurm.NO_VAL }
end

local function record_of(fields)
    local made = {
        user_id = 1000, admin_comment = "note batchai:user=alice,vm_size=NC6", min_nodes = 2, max_nodes = 4, time_limit = 60,
    }
    for key, value in pairs(fields or {}) do made[key] = value end
    return made
end

function tests.changes_keep_to_the_policy()
    write_site(policy)
    load_script()
    local record = record_of()
    same(change(unchanged(), record), 0)
    same(change(with(unchanged(), "min_nodes", 5), record), slurm.ESLURM_INVALID_NODE_COUNT)
    same(change(with(unchanged(), "max_nodes", 5), record), slurm.ESLURM_INVALID_NODE_COUNT)
    same(change(with(unchanged(), "time_limit", 121), record), slurm.ESLURM_INVALID_TIME_LIMIT)
    same(change(with(unchanged(), "time_limit", slurm.INFINITE), record), slurm.ESLURM_INVALID_TIME_LIMIT)
    same(change(with(unchanged(), "account", "biology"), record), slurm.ESLURM_INVALID_ACCOUNT)
    same(change(with(unchanged(), "account", ""), record), slurm.ESLURM_INVALID_ACCOUNT)
    same(change(with(unchanged(), "account", "Physics"), record), 0)
    same(change(with(unchanged(), "time_limit", 120), record), 0)
    same(change(with(unchanged(), "time_limit", 121), record, 0), 0)
    same(change(with(unchanged(), "time_limit", 121), { user_id = 1000 }), 0)
    write_site("return { policy = { nodes = 8 } }")
    same(change(with(unchanged(), "account", ""), record), 0)
    write_site("x(")
    same(change(with(unchanged(), "time_limit", 121), { user_id = 1000 }), 0)
end

function tests.the_limits_of_a_change_are_those_of_the_jobs_user()
    write_site(policy)
    load_script()
    local function nodes(user, count)
        local _, _, made = submit({ user_name = user, spank_job_env = declared("").spank_job_env })
        local record = record_of({ admin_comment = made.admin_comment })
        local code = change(with(unchanged(), "min_nodes", count), record, 1)
        return code
    end
    same(nodes("alice", 9), slurm.ESLURM_INVALID_NODE_COUNT)
    same(nodes("bob", 16), 0)
    same(nodes("bob", 17), slurm.ESLURM_INVALID_NODE_COUNT)
end

function tests.a_change_that_lowers_a_value_over_the_limit_passes()
    write_site(policy)
    load_script()
    local over = record_of({ min_nodes = 9, max_nodes = 9, time_limit = 500 })
    local lower = { min_nodes = 8, max_nodes = 8, time_limit = 400 }
    same(change(lower, over), 0)
    same(change(with(lower, "min_nodes", 10), over), slurm.ESLURM_INVALID_NODE_COUNT)
    same(change(with(lower, "max_nodes", 10), over), slurm.ESLURM_INVALID_NODE_COUNT)
    same(change(with(lower, "time_limit", 501), over), slurm.ESLURM_INVALID_TIME_LIMIT)
    -- A job that has no limit yet does not make every limit a lower one.
    for _, none in ipairs({ slurm.NO_VAL, slurm.INFINITE }) do
        same(change(with(unchanged(), "time_limit", 121), record_of({ time_limit = none })),
            slurm.ESLURM_INVALID_TIME_LIMIT)
    end
end

function tests.changes_that_do_not_concern_the_policy_pass_whatever_site_lua_is()
    write_site("x(")
    load_script()
    for _, other in ipairs({ "name", "nice", "priority", "comment", "dependency" }) do
        same(change(with(unchanged(), other, 1), record_of()), 0)
    end
    same(#told, 0)
    same(#logged, 0)
    for key, value in pairs({ min_nodes = 1, max_nodes = 1, time_limit = 1, account = "", partition = "short" }) do
        same(change(with(unchanged(), key, value), record_of()), slurm.ESLURM_ACCESS_DENIED)
    end
end

function tests.a_job_without_a_limit_gets_one_when_its_partition_changes()
    write_site(policy)
    load_script()
    local function limit_after(key, value, limit)
        local fields = with(unchanged(), key, value)
        same(change(fields, record_of({ time_limit = limit })), 0)
        return fields.time_limit
    end
    same(limit_after("partition", "main", slurm.NO_VAL), 120)
    same(limit_after("partition", "short", slurm.NO_VAL), 30)
    same(limit_after("partition", "of others", slurm.NO_VAL), 120)
    same(limit_after("reservation", "course", slurm.NO_VAL), 120)
    same(limit_after("partition", "main", 60), slurm.NO_VAL)
    same(limit_after("name", "x", slurm.NO_VAL), slurm.NO_VAL)
    write_site("return { policy = { nodes = 8 } }")
    same(limit_after("partition", "main", slurm.NO_VAL), slurm.NO_VAL)
end

function tests.jobs_from_before_the_policy_are_known_by_their_stamp()
    for _, text in ipairs({ false, "return {}" }) do
        write_site(text or nil)
        load_script()
        local code, _, made = submit({ admin_comment = "note" })
        same(code, 0)
        same(made.admin_comment, "note batchai:user=alice,vm_size=NC6")
        same(made.time_limit, slurm.NO_VAL)
        write_site(policy)
        same(change(with(unchanged(), "min_nodes", 5), made), slurm.ESLURM_INVALID_NODE_COUNT)
    end
end

-- Names of Active Directory may have blanks.
function tests.a_user_is_known_by_any_name()
    write_site(policy)
    load_script()
    for _, name in ipairs({ "ada lovelace", "a,b", "100%25 ada" }) do
        local _, _, made = submit({ user_name = name })
        local code, text = change(with(unchanged(), "min_nodes", 5), record_of(made))
        same(code, slurm.ESLURM_INVALID_NODE_COUNT)
        has(text, "this site lets " .. name .. " use at most 4")
    end
end

function tests.the_sites_own_functions_come_first()
    write_site(policy)
    load_script("function slurm_job_submit(job) seen = job.user_name; if job.user_name == 'mallory' then return 7 end end"
        .. "\nfunction slurm_job_modify() return 8 end")
    same(submit({ user_name = "mallory" }), 7)
    same(submit({ min_nodes = 999 }), slurm.ESLURM_ACCESS_DENIED)
    same(seen, "alice")
    same(submit(), 0)
    same(change({}, { admin_comment = "batchai:user=alice,vm_size=NC6" }), 8)
    same(submit(plain), 0)
end

function tests.an_error_in_it_refuses_only_its_own_jobs()
    write_site(policy)
    load_script()
    same(submit({ spank_job_env = { 1 } }), 0)
    same(#logged, 1)
    local code, text = submit({ min_nodes = {} })
    same(code, slurm.ESLURM_ACCESS_DENIED)
    has(text, "policy cannot be checked")
end

-- submit() again, with the number of instructions that it takes once site.lua is known.
local function instructions_of(fields)
    submit(fields)
    local count = 0
    debug.sethook(function() count = count + 1 end, "", 1)
    local code, text = submit(fields)
    debug.sethook()
    return count, code, text
end

-- Breaks when the policy's patterns are compared letter by letter, which takes the product of lengths.
function tests.long_images_take_few_instructions()
    write_site("return { policy = { images = { '*a*a*a*a*a*a*a*b', 'docker.io/*x', '*/x' } } }")
    load_script()
    local image = "BATCHAI_DECLARATION=vm_size= image=docker.io/" .. ("a"):rep(8100)
    local count, code = instructions_of({ spank_job_env = { image } })
    same(code, slurm.ESLURM_ACCESS_DENIED)
    if count > 3000 then error(count .. " instructions") end
end

function tests.images_match_as_in_the_launcher()
    for pattern, names in pairs({
        ["a*b"] = { yes = { "ab", "aab", "abb", "acb" }, no = { "a", "b", "ba", "abc", "cab", "A*B" } },
        ["ab*ba"] = { yes = { "abba", "ab.ba" }, no = { "aba", "abb" } },
        ["*"] = { yes = { "a", "a/b" }, no = {} },
        ["**x*"] = { yes = { "x", "axb" }, no = { "a" } },
        ["x"] = { yes = { "x" }, no = { "xx", "y" } },
        ["*.-%*"] = { yes = { ".-%", "a.-%b" }, no = { "a%", "..-" } },
        ["*ab*ab"] = { yes = { "abab", "ababab", "xabxab" }, no = { "ab", "xab" } },
    }) do
        write_site("return { policy = { images = { '" .. pattern .. "' } } }")
        load_script()
        for wanted, list in pairs(names) do
            for _, name in ipairs(list) do
                local code = submit(declared("", name))
                if (code == 0) ~= (wanted == "yes") then error(pattern .. " and " .. name .. ": " .. code) end
            end
        end
    end
end

-- Breaks when one user's script keeps slurmctld busy, or gets round the policy by its length.
function tests.long_scripts_take_few_instructions()
    write_site(policy)
    load_script()
    local lines = ("x\n"):rep(2 * 1024 * 1024 - 10000)
    local denied = slurm.ESLURM_ACCESS_DENIED
    for name, case in pairs({
        ["short lines"] = { lines .. "batchai\n", 0 },
        ["short lines and a call"] = { lines .. "batchai run\n", denied },
        ["a long line"] = { ("x "):rep(2 * 1024 * 1024 - 100) .. "batchai run", denied },
        ["long blanks"] = { "batchai" .. (" "):rep(4 * 1024 * 1024 - 100) .. "run", denied },
        ["comments"] = { ("# batchai run\n"):rep(900) .. lines, 0 },
        ["long comments"] = { ("#" .. ("y"):rep(4000) .. " batchai run\n"):rep(900), 0 },
        ["many words"] = { ("batchai\n"):rep(500000), denied },
        ["many words and a call"] = { ("batchai\n"):rep(999) .. "batchai run\n", denied },
        ["too long"] = { lines .. lines .. "batchai run\n", denied },
        ["too long, plain"] = { lines .. lines, 0 },
        ["a declaration far down"] = { lines .. "#BATCHAI vm_size= image=docker.io/library/a\nbatchai run\n", denied },
        ["many declarations"] = { "#BATCHAI vm_size= image=docker.io/library/a\n"
            .. ("#BATCHAI \n"):rep(400000) .. "batchai run\n", 0 },
    }) do
        local count, code, text = instructions_of({ spank_job_env = {}, script = case[1] })
        if code ~= case[2] then error(name .. ": code " .. code .. ", " .. text) end
        if count > 100000 then error(name .. ": " .. count .. " instructions") end
    end
end

-- Breaks when a script can hide its call behind what is not looked at.
function tests.a_call_at_any_place_of_a_script_is_seen()
    write_site(policy)
    load_script()
    for length = 1, 600 do
        for _, call in ipairs({ "batchai" .. (" "):rep(length) .. "run", (";"):rep(length * 16) .. "batchai run" }) do
            local code = submit({ spank_job_env = {}, script = "#!/bin/sh\n" .. call .. "\nx\n" })
            if code == 0 then error(length .. ": not seen") end
        end
    end
end

function tests.a_long_declaration_says_nothing()
    write_site("return { policy = { images = { 'docker.io/*' } } }")
    load_script()
    local image = "vm_size= image=docker.io/" .. ("a"):rep(8192)
    same(submit({ spank_job_env = { "BATCHAI_DECLARATION=" .. image } }), slurm.ESLURM_ACCESS_DENIED)
end

local failed = 0
for name, test in pairs(tests) do
    local ok, why = xpcall(test, debug.traceback)
    print((ok and "ok      " or "FAILED  ") .. name)
    if not ok then
        failed = failed + 1
        print(why)
    end
end
os.remove(site_file)
if failed > 0 then error(failed .. " tests failed", 0) end
