-- include: parts/adding.lua
-- include: parts/batch.lua
-- include: parts/due.lua
-- Settles many jobs under their claims, adds what follows from them, and claims many.
-- Asked: plain (lists for `complete_many` in `parts/batch.lua`), done (see `settle` in `parts/ending.lua`; `follow_up`:
-- jobs), claim (see `parts/batch.lua`) or nothing, metrics (see `parts/metrics.lua`) or nothing.
-- Returns: 1 or 0 for each settlement, the rows that were claimed, the topics that woke, the time, and where less was
-- claimed than asked for what `due_of` says of the queues.
local applied = {}
for _, list in ipairs(asked.plain) do
  local rest, count = complete_many(list)
  for i = 1, count do applied[#applied + 1] = (not rest[i] or settle(rest[i])) and 1 or 0 end
end
look_for_children(asked.done)
for _, done in ipairs(asked.done) do
  local holds, repeated = settle(done)
  applied[#applied + 1] = holds and 1 or 0
  if holds and not repeated and done.follow_up then add_all(done.follow_up) end
end
for _, q in pairs(queues) do
  flush(q)
  write_metrics(q)
end
local rows = {}
if asked.claim then rows = claim() end
for _, q in pairs(queues) do leave(q) end
local due = false
if asked.claim and #rows < (asked.claim.total or math.huge) then
  local names = {}
  for i, want in ipairs(asked.claim.wants) do names[i] = want[1] end
  due = due_of(names)
end
return { applied, rows, wf_woken(ARGV[2], ARGV[3]), now, due }
