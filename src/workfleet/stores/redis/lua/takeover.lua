-- include: parts/claiming.lua
-- Moves active jobs of dead owners to a new claim. Asked: claim (worker, token, lease_ms), limit, workers (or nothing).
-- Returns the rows. A job that a BullMQ worker ran is an orphan when it has no lock.
local rows = held_by(asked.claim.token)
if #rows > 0 then return rows end
local dead = {}
for _, worker in ipairs(asked.workers or {}) do dead[worker] = true end

-- When the lease of a job ended that nobody runs any more, nil of the others. A note that is void is dropped.
local function orphaned(q, id)
  local till, _, holder = claim_of(q, id)
  if till then
    local gone = till <= now
    if asked.workers then gone = dead[holder] end
    if not gone then return nil end
    if standing_claim(q, id) then return till end
    call('HDEL', q.claims, id)
  end
  if not asked.workers and call('EXISTS', q.p .. id .. ':lock') == 0 then return 0 end
end

local orphans = {}
for name in pairs(known_queues()) do
  local q = queue(name)
  for _, id in ipairs(active_of(q)) do
    local till = orphaned(q, id)
    if till then
      local job = load(q, id)
      if job then
        local run = job.group .. '\n' .. (job.started or '')
        orphans[#orphans + 1] = { q = q, id = id, till = till, n = job.wf.n or 0, run = run }
      else
        -- Somebody has deleted its hash: it would hold a slot for ever.
        call('LREM', q.active, 0, id)
        unlock(q, id)
        free_slot(q, '')
      end
    end
  end
end
table.sort(orphans, function(one, other)
  if one.till ~= other.till then return one.till < other.till end
  return one.n < other.n
end)

for i = 1, math.min(asked.limit, #orphans) do
  local it = orphans[i]
  sound(it.q)
  lock(it.q, it.id, asked.claim.token, asked.claim.lease_ms, asked.claim.worker, it.run)
  event(it.q, 'stalled', it.id)
  rows[i] = it
end
for _, q in pairs(queues) do flush(q) end
for i, it in ipairs(rows) do rows[i] = row(it.q, it.id) end
remember(asked.claim.token, rows)
return rows
