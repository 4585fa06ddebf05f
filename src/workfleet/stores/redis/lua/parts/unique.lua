-- include: parts/line.lua
-- Unique keys: who holds one, and who waits for whom.

local function rule_of(job) return cjson.decode(job.wf.rule or '{}') end

-- The id of who holds a unique key now. What another program deleted or ended holds nothing.
local function holder(key)
  local text = call('GET', base .. 'hold:' .. key)
  if not text then return nil end
  local till, id = string.match(text, '^(%d+) (.*)$')
  if till ~= '0' then return tonumber(till) > now and id or nil end
  local name = call('HGET', base .. 'key:' .. key, id)
  local there = name and load(queue(name), id)
  if there and not there.finished then return id end
  call('DEL', base .. 'hold:' .. key)
end

-- The unfinished jobs of a key.
local function of_key(key)
  local jobs, all = {}, call('HGETALL', base .. 'key:' .. key)
  for i = 1, #all, 2 do
    local job = load(queue(all[i + 1]), all[i])
    if job then jobs[#jobs + 1] = job end
  end
  return jobs
end

local function take_key(job)
  local key = job.wf.key
  if not key then return end
  local rule = rule_of(job)
  local window = rule.window_ms or 0
  if window > 0 then
    call('SET', base .. 'hold:' .. key, (now + window) .. ' ' .. job.id, 'PX', window)
  else
    call('SET', base .. 'hold:' .. key, '0 ' .. job.id)
  end
  job.wf.parked = nil
  if rule.exclusive then
    for _, other in ipairs(of_key(key)) do
      if other.started and other.id ~= job.id then job.wf.parked = true end
    end
  end
  call('HSET', base .. 'key:' .. key, job.id, job.q.name)
end

local function leave_key(job)
  local hold = base .. 'hold:' .. job.wf.key
  if call('GET', hold) == '0 ' .. job.id then call('DEL', hold) end
end

-- A job of a key starts for the first time: exclusive ones of the key wait for its end.
local function start_key(job)
  if rule_of(job)['until'] == 'started' then leave_key(job) end
  for _, other in ipairs(of_key(job.wf.key)) do
    if other.id ~= job.id and not other.started and not other.wf.parked and rule_of(other).exclusive then
      take_out(other, state_of(other))
      other.wf.parked = true
      save(other)
      put(other)
    end
  end
end

-- A job of a key has finished or is gone: the first that is parked need not wait any longer.
local function close_key(job)
  local key = job.wf.key
  if not key then return end
  call('HDEL', base .. 'key:' .. key, job.id)
  leave_key(job)
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
  end
end
