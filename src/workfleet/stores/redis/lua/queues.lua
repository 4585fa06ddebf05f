-- include: parts/names.lua
-- What is said of queues. Returns name, paused, concurrency, max, duration, JSON about groups, for each.
local rows = {}
for name in pairs(known_queues()) do
  local q = queue(name)
  rows[#rows + 1] = {
    name, q.paused and 1 or 0, q.concurrency or false, q.max or false, q.duration or false,
    call('GET', q.ours .. 'queue:limits'),
  }
end
return rows
