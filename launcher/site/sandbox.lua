-- SPDX-License-Identifier: GPL-2.0-or-later
-- The limit for instructions does not see what happens inside one call of a library function, and a
-- pattern with several repetitions can run there for ever. This text replaces the functions of the
-- tables `strings` and `tables` whose one call can take that long, or can make a text of any size,
-- by bounded ones. The launcher (table_reader.cpp) and slurmctld (lua/job_submit.lua.in) both run
-- it, so that they accept the same files.
local strings, tables, pattern_steps, largest_text = ...

local byte, rep, concat = strings.byte, strings.rep, tables.concat
local find, match, gmatch, gsub = strings.find, strings.match, strings.gmatch, strings.gsub
local error, max, tonumber, tostring, type = error, math.max, tonumber, tostring, type

local percent, bracket, closing_bracket, caret = byte("%[]^", 1, 4)
local repeats = { [byte("*")] = true, [byte("+")] = true, [byte("-")] = true, [byte("?")] = true }
-- "%b()" and "%1" look through the text as well.
local searches = { [byte("b")] = true }
for digit = byte("0"), byte("9") do searches[digit] = true end

-- Returns where the set that begins here ends: "]" is a member if it comes first.
local function end_of_set(pattern, at)
    at = at + 1
    if byte(pattern, at) == caret then at = at + 1 end
    repeat
        local letter = byte(pattern, at)
        at = at + (letter == percent and 2 or 1)
    until at > #pattern or byte(pattern, at) == closing_bracket
    return at
end

local function repetitions(pattern)
    local at, count = 1, 0
    while at <= #pattern do
        local letter = byte(pattern, at)
        if letter == percent then
            at = at + 1
            if searches[byte(pattern, at)] then count = count + 1 end
        elseif letter == bracket then
            at = end_of_set(pattern, at)
        elseif repeats[letter] then
            count = count + 1
        end
        at = at + 1
    end
    return count
end

local steps = 0

local kinds = { string = true, number = true }

-- Each repetition may end at each place of the text, for each place where a match may begin. The
-- steps of all calls are added up. Floating-point numbers cannot overflow.
local function charge(text, pattern, starts_anywhere, is_plain)
    if not kinds[type(text)] or not kinds[type(pattern)] then return end -- the function says so
    text, pattern = tostring(text), tostring(pattern)
    local nested = is_plain and 0 or repetitions(pattern)
    if starts_anywhere or byte(pattern) ~= caret then nested = nested + 1 end
    steps = steps + (#text + 2.0) ^ nested * (#pattern + 1)
    if steps <= pattern_steps then return end
    error("patterns may take more than " .. pattern_steps
        .. " steps: use fewer of * + - ? in them, or shorter texts", 3)
end

-- Written so that a size that is not a number is too large.
local function check_size(size)
    if size <= largest_text then return end
    error("a text may get longer than " .. largest_text .. " bytes", 3)
end

local function length_of(value)
    if type(value) == "string" then return #value end
    return type(value) == "number" and 32 or 0
end

function strings.find(text, pattern, init, plain)
    charge(text, pattern, plain, plain)
    return find(text, pattern, init, plain)
end

function strings.match(text, pattern, init)
    charge(text, pattern)
    return match(text, pattern, init)
end

function strings.gmatch(text, pattern)
    charge(text, pattern, true)
    return gmatch(text, pattern)
end

function strings.gsub(text, pattern, replacement, count)
    charge(text, pattern)
    local given = replacement
    -- A function's texts are seen by the limit for memory while they are put together.
    if type(given) == "table" then replacement = function(key) return given[key] end end
    check_size((length_of(text) + 1.0) * (length_of(given) + 1))
    return gsub(text, pattern, replacement, count)
end

function strings.rep(text, count, separator)
    -- A repetition of nothing takes its time too.
    if tonumber(count) then
        check_size(max(1, length_of(text) + length_of(separator)) * (count + 0.0))
    end
    return rep(text, count, separator)
end

function tables.concat(list, separator, first, last)
    local size, index = 0, tonumber(first) or 1
    local after = tonumber(last) or type(list) == "table" and #list or 0
    while type(list) == "table" and index <= after and list[index] ~= nil do
        size = size + length_of(list[index]) + length_of(separator)
        check_size(size)
        index = index + 1
    end
    return concat(list, separator, first, last)
end
