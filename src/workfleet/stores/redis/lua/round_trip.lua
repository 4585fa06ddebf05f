-- include: parts/adding.lua
-- include: parts/batch.lua
-- Adds jobs, claims and settles what was claimed. Asked: jobs (see `parts/adding.lua`), claim (see `parts/batch.lua`),
-- done (see `settle` in `parts/ending.lua`, without an id).
-- Returns: how many were settled, and the topics that woke.
add_all(asked.jobs)
for _, q in pairs(queues) do flush(q) end
local rows = claim()
for _, q in pairs(queues) do flush(q) end
-- What is settled needs no note for a repeat of its claim.
call('DEL', base .. 'call:' .. asked.claim.token .. ':v')
local settled = 0
for _, given in ipairs(rows) do
  asked.done.hint, asked.done.id = given[1], given[2]
  if settle(asked.done) then settled = settled + 1 end
end
for _, q in pairs(queues) do leave(q) end
return { settled, wf_woken(ARGV[2], ARGV[3]) }
