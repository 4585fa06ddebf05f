-- include: parts/listing.lua
-- Lists jobs. Asked: queue (or nothing), states (or nothing). Returns queue, id, creation of each, in one flat list.
local found, states = {}, set_of(asked.states)
for name in pairs(known_queues()) do
  if not asked.queue or asked.queue == name then
    local q = queue(name)
    every(q, states, function(id)
      local n = #found
      found[n + 1], found[n + 2], found[n + 3] = name, id, tonumber(call('HGET', q.p .. id, 'timestamp')) or 0
    end)
  end
end
return found
