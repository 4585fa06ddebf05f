-- include: parts/dedup.lua
-- Unique keys: who holds one, and who waits for whom. For BullMQ the holder stands for a deduplication id, which is the
-- key: who is refused because of it is told, and where somebody frees it there, it is free here.

local function rule_of(job) return cjson.decode(job.wf.rule or '{}') end

-- The id of who holds a unique key now, and the queue. What another program deleted, ended or freed holds nothing.
-- `at`: the queue of the newcomer, where a job of another program may stand for the key.
local function holder(key, at)
  local text = call('GET', base .. 'hold:' .. key .. ':v')
  if text then
    local till, name, id = string.match(text, '^(%d+) ([^\n]*)\n(.*)$')
    local q, held = queue(name), tonumber(till) > now
    if till == '0' then
      local there = load(q, id)
      held = there and not there.finished
    end
    if call('GET', dedup(q, key)) == id then
      if held then return id, q end
      if q == at then return nil end
    end
    if till == '0' then call('DEL', base .. 'hold:' .. key .. ':v') end
  end
  return deduplicated_by(at, key), at
end

-- The keys of which something is kept, in the order in which `prune` looks whether that is so.
local kept_of = base .. 'unique'

-- Nobody has a key any more. What holds it for a time ends by itself.
local function forget_key(key)
  local hold = base .. 'hold:' .. key .. ':v'
  if call('PTTL', hold) == -1 then call('DEL', hold) end
  call('ZREM', kept_of, key)
end

-- The unfinished jobs of a key. What another program deleted or ended is forgotten.
local function of_key(key)
  local jobs, all = {}, call('HGETALL', base .. 'key:' .. key .. ':v')
  for i = 1, #all, 2 do
    local job = load(queue(all[i + 1]), all[i])
    if job and not job.finished then jobs[#jobs + 1] = job
    else call('HDEL', base .. 'key:' .. key .. ':v', all[i]) end
  end
  return jobs
end

local function park(job)
  job.wf.parked = true
  call('SADD', base .. 'parked', job.wf.key)
end

-- Who held a key in another queue before stands for it there no longer.
local function forget_holder(key, q)
  local name, id = string.match(call('GET', base .. 'hold:' .. key .. ':v') or '', '^%d+ ([^\n]*)\n(.*)$')
  if not name or name == q.name then return end
  local mark_there = dedup(queue(name), key)
  if call('GET', mark_there) == id then call('DEL', mark_there) end
end

local function take_key(job)
  local key = job.wf.key
  if not key then return end
  forget_holder(key, job.q)
  local rule = rule_of(job)
  local window = rule.window_ms or 0
  local hold, said = base .. 'hold:' .. key .. ':v', job.q.name .. '\n' .. job.id
  if window > 0 then
    call('SET', hold, (now + window) .. ' ' .. said, 'PX', window + SLACK_MS)
    call('SET', dedup(job.q, key), job.id, 'PX', window + SLACK_MS)
  else
    call('SET', hold, '0 ' .. said)
    call('SET', dedup(job.q, key), job.id)
  end
  job.wf.parked = nil
  if rule.exclusive then
    for _, other in ipairs(of_key(key)) do
      if other.started and other.id ~= job.id then park(job) end
    end
  end
  call('HSET', base .. 'key:' .. key .. ':v', job.id, job.q.name)
  call('ZADD', kept_of, job.wf.n or 0, key)
end

local function leave_key(job)
  local hold = base .. 'hold:' .. job.wf.key .. ':v'
  if call('GET', hold) == '0 ' .. job.q.name .. '\n' .. job.id then call('DEL', hold) end
  leave_dedup(job, job.wf.key)
end

-- A job of a key starts for the first time: exclusive ones of the key wait for its end.
local function start_key(job)
  if rule_of(job)['until'] == 'started' then leave_key(job) end
  for _, other in ipairs(of_key(job.wf.key)) do
    if other.id ~= job.id and not other.started and not other.wf.parked and rule_of(other).exclusive then
      take_out(other, state_of(other))
      park(other)
      save(other)
      put(other)
    end
  end
end

-- The first that is parked need not wait any longer, if no other one of the key goes on.
local function unpark(key)
  local first, others = nil, of_key(key)
  for _, other in ipairs(others) do
    if other.started then return end
    if other.wf.parked and (not first or other.wf.n < first.wf.n) then first = other end
  end
  if first then
    take_out(first, state_of(first)) -- another program may have promoted it
    first.wf.parked = nil
    save(first)
    put(first, 'delayed')
    wf_wake('queue ' .. first.q.name)
  else
    call('SREM', base .. 'parked', key)
    if #others == 0 then forget_key(key) end
  end
end

-- A job of a key has finished or is gone.
local function close_key(job)
  local key = job.wf.key
  if not key then return end
  call('HDEL', base .. 'key:' .. key .. ':v', job.id)
  leave_key(job)
  unpark(key)
end
