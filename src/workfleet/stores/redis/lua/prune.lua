-- include: parts/claiming.lua
-- include: parts/lock.lua
-- Deletes finished jobs by rules and by their own, and what nobody needs any more: starts that no rate counts, claims
-- on jobs that other programs ended, expired locks. Asked: rules (state, age_ms, count, hk), limit. Returns how many.
local doomed, listed = {}, {}

-- A job that cannot be read stays.
local function unreadable(q, id)
  local job = load(q, id)
  return job and (job.broken or job.wf.code == 'undecodable')
end

-- Those of a set that are too old or too many, the oldest first. `skip`: the ids of other classes.
local function beyond(q, state, key, size, age, most, skip)
  local too_many = most and math.max(size - most, 0) or 0
  local before = age and now - age or -math.huge
  local at, seen = 0, 0
  while true do
    local page = call('ZRANGE', key, at, at + 499, 'WITHSCORES')
    if #page == 0 then return end
    for i = 1, #page, 2 do
      local id, ended = page[i], tonumber(page[i + 1])
      if not skip or not skip(id) then
        if seen >= too_many and ended >= before then return end
        seen = seen + 1
        if not listed[q.p .. id] and not unreadable(q, id) then
          listed[q.p .. id] = true
          doomed[#doomed + 1] = { q = q, id = id, state = state, key = key }
          if #doomed >= asked.limit then return end
        end
      end
    end
    at = at + 500
  end
end

local function classes_of(q)
  local classes = {}
  for _, text in ipairs(call('SMEMBERS', q.ours .. 'queue:kept')) do
    local state, class = string.match(text, '^([^\n]*)\n(.*)$')
    local key = kept(q, state, class)
    local size = call('ZCARD', key)
    if size == 0 then call('SREM', q.ours .. 'queue:kept', text)
    else classes[#classes + 1] = { state = state, class = class, key = key, size = size } end
  end
  return classes
end

local function by_rule(q, rule, classes)
  local key = q.p .. rule.state
  if rule.hk then
    for _, it in ipairs(classes) do
      if it.state == rule.state and it.class == 'house' then
        beyond(q, rule.state, it.key, it.size, rule.age_ms, rule.count)
      end
    end
    return
  end
  local size, others = call('ZCARD', key), {}
  for _, it in ipairs(classes) do
    if it.state == rule.state then
      size = size - it.size
      others[#others + 1] = it.key
    end
  end
  beyond(q, rule.state, key, size, rule.age_ms, rule.count, function(id)
    for _, other in ipairs(others) do
      if call('ZSCORE', other, id) then return true end
    end
    return false
  end)
end

local function forget_starts(q, group)
  local limit, per = rate_of(q, group)
  if limit then call('ZREMRANGEBYSCORE', starts_of(q, group), '-inf', now - per)
  else call('DEL', starts_of(q, group)) end
end

for name in pairs(known_queues()) do
  local q = queue(name)
  local classes = classes_of(q)
  for _, rule in ipairs(asked.rules) do
    if rule.state == 'completed' or rule.state == 'failed' then by_rule(q, rule, classes) end
  end
  for _, it in ipairs(classes) do
    if it.class ~= 'house' then
      local rule = cjson.decode(it.class)
      beyond(q, it.state, it.key, it.size, number(rule.age_ms), number(rule.count))
    end
  end
  active_of(q)
  forget_starts(q, WHOLE)
  for _, group in ipairs(call('SMEMBERS', q.ours .. 'queue:rated')) do
    forget_starts(q, group)
    if call('EXISTS', starts_of(q, group)) == 0 then call('SREM', q.ours .. 'queue:rated', group) end
  end
end

-- Where a BullMQ worker ended the job that they waited for, nobody has told them.
for _, key in ipairs(call('SMEMBERS', base .. 'parked')) do unpark(key) end

local count = 0
for _, it in ipairs(doomed) do
  local job = load(it.q, it.id)
  if job then
    discard(job, it.state)
    count = count + 1
  else
    -- BullMQ has deleted it.
    call('ZREM', it.key, it.id)
  end
end
while wf_sweep_locks(base .. 'locks', base .. 'lock_owners', now) == 100 do end
return { count, wf_woken(ARGV[2], ARGV[3]) }
