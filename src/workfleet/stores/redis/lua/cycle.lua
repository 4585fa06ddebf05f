-- include: parts/adding.lua
-- include: parts/claiming.lua
-- Settles many jobs under their claims, adds what follows from them, and claims many.
-- Asked: done (see `settle` in `parts/ending.lua`; `follow_up`: jobs), claim (see `parts/claiming.lua`) or nothing.
-- Returns: 1 or 0 for each settlement, the rows that were claimed, the topics that woke, the time.
local applied = {}
for i, done in ipairs(asked.done) do
  local holds, repeated = settle(done)
  applied[i] = holds and 1 or 0
  if holds and not repeated and done.follow_up then add_all(done.follow_up) end
end
for _, q in pairs(queues) do flush(q) end
local rows = {}
if asked.claim then rows = claim() end
for _, q in pairs(queues) do leave(q) end
return { applied, rows, wf_woken(ARGV[2], ARGV[3]), now }
