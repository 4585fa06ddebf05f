-- include: parts/claiming.lua
-- In how many milliseconds the first lease of an active job ends. Asked: nothing. Returns 0 or less for what has ended,
-- nothing where no job is active. A job that a BullMQ worker runs has its lock for a lease.
local soonest
for name in pairs(known_queues()) do
  local q = queue(name)
  for _, id in ipairs(call('LRANGE', q.active, 0, -1)) do
    local till = claim_of(q, id)
    if till and till <= now then till = standing_claim(q, id) end
    if not till then till = now + math.max(call('PTTL', q.p .. id .. ':lock'), 0) end
    soonest = soonest and math.min(soonest, till) or till
  end
end
return soonest and soonest - now or false
