-- include: parts/line.lua
-- Unique keys: who holds one, and who waits for whom.

local function rule_of(job) return cjson.decode(job.wf.rule or '{}') end

-- The id of who holds a unique key now. What another program deleted or ended holds nothing.
local function holder(key)
  local text = call('GET', base .. 'hold:' .. key .. ':v')
  if not text then return nil end
  local till, id = string.match(text, '^(%d+) (.*)$')
  if till ~= '0' then return tonumber(till) > now and id or nil end
  local name = call('HGET', base .. 'key:' .. key .. ':v', id)
  local there = name and load(queue(name), id)
  if there and not there.finished then return id end
  call('DEL', base .. 'hold:' .. key .. ':v')
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

local function take_key(job)
  local key = job.wf.key
  if not key then return end
  local rule = rule_of(job)
  local window = rule.window_ms or 0
  if window > 0 then
    call('SET', base .. 'hold:' .. key .. ':v', (now + window) .. ' ' .. job.id, 'PX', window + SLACK_MS)
  else
    call('SET', base .. 'hold:' .. key .. ':v', '0 ' .. job.id)
  end
  job.wf.parked = nil
  if rule.exclusive then
    for _, other in ipairs(of_key(key)) do
      if other.started and other.id ~= job.id then park(job) end
    end
  end
  call('HSET', base .. 'key:' .. key .. ':v', job.id, job.q.name)
end

local function leave_key(job)
  local hold = base .. 'hold:' .. job.wf.key .. ':v'
  if call('GET', hold) == '0 ' .. job.id then call('DEL', hold) end
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
  local first
  for _, other in ipairs(of_key(key)) do
    if other.started then return end
    if other.wf.parked and (not first or other.wf.n < first.wf.n) then first = other end
  end
  if first then
    take_out(first, 'delayed')
    first.wf.parked = nil
    save(first)
    put(first, 'delayed')
    wf_wake('queue ' .. first.q.name)
  else
    call('SREM', base .. 'parked', key)
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
