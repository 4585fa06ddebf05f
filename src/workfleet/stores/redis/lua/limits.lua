-- include: parts/claiming.lua
-- Replaces the limits of queues. Asked: queues (name, concurrency, rate ({limit, per_ms}), groups (JSON of what is
-- about groups), or nothing each). What holds for a whole queue is BullMQ's: concurrency, max and duration in `meta`.
local function set(q, field, value)
  if value then call('HSET', q.meta, field, value) else call('HDEL', q.meta, field) end
end

for _, said in ipairs(asked.queues) do
  know(said.name, 0)
  local q = queue(said.name)
  local rate = said.rate or {}
  set(q, 'concurrency', said.concurrency)
  set(q, 'max', rate[1])
  set(q, 'duration', rate[2])
  q.concurrency, q.max, q.duration = said.concurrency, rate[1], rate[2]
  local key = q.ours .. 'queue:limits'
  if said.groups then call('SET', key, said.groups) else call('DEL', key) end
  -- What had started is forgotten where no rate asks any more.
  if not rate[1] then call('DEL', starts_of(q, WHOLE)) end
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
