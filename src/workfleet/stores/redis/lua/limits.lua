-- include: parts/claiming.lua
-- Replaces the limits of queues. Asked: queues (name, concurrency, rate ({limit, per_ms}), groups (JSON of what is
-- about groups), or nothing each). What holds for a whole queue is BullMQ's: concurrency, max and duration in `meta`,
-- where BullMQ's programs say it too.
local PAUSED = 2 ^ 53 - 1 -- BullMQ's `rateLimit` writes this: it is no count of starts
-- Says something of the whole queue; or, where there is nothing to say, takes back what we have said: what another
-- program has said instead stays.
local function say(q, fields, values)
  local kept, there, mine = q.ours .. 'queue:said', call('HMGET', q.meta, unpack(fields)), true
  for i, field in ipairs(fields) do
    if values[i] then
      call('HSET', q.meta, field, values[i])
      call('HSET', kept, field, values[i])
    else
      mine = mine and there[i] and there[i] == call('HGET', kept, field)
    end
  end
  if values[1] then return end
  if mine then call('HDEL', q.meta, unpack(fields)) end
  call('HDEL', kept, unpack(fields))
end

for _, said in ipairs(asked.queues) do
  know(said.name, 0)
  local q = queue(said.name)
  local rate = said.rate or {}
  if q.duration and rate[2] and q.duration ~= rate[2] and tonumber(call('GET', q.p .. 'limiter') or 0) < PAUSED then
    call('DEL', q.p .. 'limiter')
  end
  say(q, { 'concurrency' }, { said.concurrency })
  say(q, { 'max', 'duration' }, rate)
  local meta = call('HMGET', q.meta, 'concurrency', 'max', 'duration')
  q.concurrency, q.max, q.duration = tonumber(meta[1]), tonumber(meta[2]), tonumber(meta[3])
  local key = q.ours .. 'queue:limits'
  if said.groups then call('SET', key, said.groups) else call('DEL', key) end
  -- What had started is forgotten where no rate asks any more.
  if not q.max then call('DEL', starts_of(q, WHOLE)) end
  for _, group in ipairs(call('SMEMBERS', q.ours .. 'queue:rated')) do
    if not rate_of(q, group) then
      call('DEL', starts_of(q, group))
      call('SREM', q.ours .. 'queue:rated', group)
    end
  end
  if has_ready(q, '') or call('EXISTS', q.groups) == 1 then mark(q) end
  wf_wake('queue ' .. said.name)
end
return wf_woken(ARGV[2], ARGV[3])
