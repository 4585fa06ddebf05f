-- include: parts/plain.lua
-- Adds jobs. Asked: plain (a list for `add_plain` in `parts/plain.lua`) or jobs (see `parts/adding.lua`), call (an id, or
-- nothing).
-- Returns: {id, created, replaced} of each job, or nothing where all are new, and the topics that woke.
local answers = false
if not asked.plain then answers = add_all(asked.jobs, asked.call)
elseif not add_plain(asked.plain, asked.call) then answers = add_all(spelled_out(asked.plain), asked.call) end
return { answers, wf_woken(ARGV[2], ARGV[3]) }
