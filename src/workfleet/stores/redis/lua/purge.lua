-- include: parts/listing.lua
-- Deletes jobs of a queue in some states, in the order of enqueueing. Asked: queue, states, limit. Returns how many.
local q, doomed = queue(asked.queue), {}
local states = set_of(asked.states)
states.active = nil
every(q, states, function(id)
  local job = load(q, id)
  if job then doomed[#doomed + 1] = { id = id, n = job.wf.n or 0 } end
end)
table.sort(doomed, function(one, other) return one.n < other.n end)
local count = math.min(#doomed, asked.limit)
for i = 1, count do
  -- One that is gone may have unparked another.
  local job = load(q, doomed[i].id)
  discard(job, state_of(job))
end
return { count, wf_woken(ARGV[2], ARGV[3]) }
