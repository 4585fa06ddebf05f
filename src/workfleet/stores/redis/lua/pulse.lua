-- include: parts/adding.lua
-- include: parts/batch.lua
-- What a worker asks at every poll: the round trip of a job, its sign of life, and what is new.
-- KEYS 1 as in parts/names.lua, 2-6 as 1-5 of worker_register.lua, 7 the revision of the schedules
-- Asked: jobs (see `parts/adding.lua`), claim (see `parts/batch.lua`), done (see `settle` in `parts/ending.lua`, without
-- an id), worker (id) or nothing, active, pools (JSON) or nothing, obeyed (ids), queues, within_ms.
-- Returns: how many were settled, {JSON, beat, and instruction, pools, orders or nil} of the worker or nothing, the revision, the time, the
-- queues with something to claim within that time, and the topics that woke.
add_all(asked.jobs)
for _, q in pairs(queues) do flush(q) end
local rows = claim()
for _, q in pairs(queues) do flush(q) end
-- What is settled needs no note for a repeat of its claim.
call('DEL', base .. 'call:' .. asked.claim.token .. ':v')
local settled = 0
for _, given in ipairs(rows) do
  asked.done.queue, asked.done.id = given[1], given[2]
  if settle(asked.done) then settled = settled + 1 end
end
for _, q in pairs(queues) do leave(q) end

-- What the worker has not carried out yet.
local function ordered(id)
  local there, obeyed, left = call('HGET', KEYS[6], id), {}, {}
  if not there or #asked.obeyed == 0 then return there end
  for _, each in ipairs(asked.obeyed) do obeyed[each] = true end
  for _, order in ipairs(cjson.decode(there)) do
    if not obeyed[order.id] then left[#left + 1] = order end
  end
  if #left == 0 then
    call('HDEL', KEYS[6], id)
    return false
  end
  there = cjson.encode(left)
  call('HSET', KEYS[6], id, there)
  return there
end

local function beaten(id)
  local said = call('HGET', KEYS[2], id)
  if not said then return false end
  local started = string.match(call('HGET', KEYS[3], id), '^%d+')
  local beat = string.format('%s %s %d', started, now_text, asked.active)
  call('HSET', KEYS[3], id, beat)
  if asked.pools then call('HSET', KEYS[5], id, asked.pools) else call('HDEL', KEYS[5], id) end
  return { said, beat, call('HGET', KEYS[4], id), asked.pools or false, ordered(id) }
end

local function stirs(q)
  if q.paused then return false end
  if call('EXISTS', q.wait, q.prioritized, q.groups) > 0 then return true end
  local first = call('ZRANGE', q.delayed, 0, 0, 'WITHSCORES')
  return first[2] and math.floor(tonumber(first[2]) / 4096) <= now + asked.within_ms
end

local stirring = {}
for _, name in ipairs(asked.queues) do
  if stirs(queue(name)) then stirring[#stirring + 1] = name end
end
return {
  settled, asked.worker and beaten(asked.worker) or false, tonumber(call('GET', KEYS[7]) or 0), now, stirring,
  wf_woken(ARGV[2], ARGV[3]),
}
