-- include: parts/adding.lua
-- Adds jobs. Asked: jobs (see `parts/adding.lua`), call (an id, or nothing).
-- Returns: {id, created, replaced} of each job, and the topics that woke.
return { add_all(asked.jobs, asked.call), wf_woken(ARGV[2], ARGV[3]) }
