-- include: parts/listing.lua
-- Counts jobs. Asked: hk (whether the product's own are counted). Returns for each queue: name, waiting, prioritized,
-- delayed, active, completed, failed, waiting-children, retrying, since when the oldest ready one waits (or nothing).
local LOOKED_AT = 500 -- so many of a kind, at most
local COUNTED = { 'waiting', 'prioritized', 'delayed', 'active', 'completed', 'failed', 'waiting-children' }

local function house_of(q) return asked.hk and {} or set_of(call('SMEMBERS', q.ours .. 'queue:house')) end

-- The first `due` of those that `id_at` gives for 0, 1, … that are not the product's own.
local function first_due(q, house, id_at)
  for at = 0, LOOKED_AT do
    local id = id_at(at)
    if not id then return nil end
    local job = not house[id] and load(q, id)
    if job then return due_of(job) end
  end
end

local function sooner(one, other) return one and other and math.min(one, other) or one or other end

-- `wait` holds, from its end: last in first out, then first in first out. The oldest is at the seam.
local function oldest_waiting(q, house, list)
  local length = call('LLEN', list)
  local seam = steps_before(length, function(at)
    local job = load(q, call('LINDEX', list, at))
    return job ~= nil and job.lifo
  end)
  local first_in = first_due(q, house, function(at)
    return seam - 1 - at >= 0 and call('LINDEX', list, seam - 1 - at)
  end)
  local last_in = first_due(q, house, function(at) return seam + at < length and call('LINDEX', list, seam + at) end)
  return sooner(first_in, last_in)
end

local function oldest_prioritized(q, house)
  local oldest, from = nil, '-inf'
  for _ = 0, LOOKED_AT do
    local first = call('ZRANGEBYSCORE', q.prioritized, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if #first == 0 then return oldest end
    local low = math.floor(tonumber(first[2]) / 2 ^ 32) * 2 ^ 32
    oldest = sooner(oldest, first_due(q, house, function(at)
      return call('ZRANGEBYSCORE', q.prioritized, low, low + 2 ^ 32 - 1, 'LIMIT', at, 1)[1]
    end))
    from = low + 2 ^ 32
  end
  return oldest
end

-- Adds the ready jobs of a group to a count, and takes them from the delayed ones; returns since when the oldest waits.
-- Of many, not each is looked at: those count that other programs took elsewhere.
local function count_group(q, group, house, count)
  local key, oldest = group_ready(q, group), nil
  local size = call('ZCARD', key)
  if size > LOOKED_AT then
    local prioritized = call('ZLEXCOUNT', key, '[10000001', '+')
    count.waiting, count.prioritized = count.waiting + size - prioritized, count.prioritized + prioritized
    count.delayed = count.delayed - size
  end
  for _, member in ipairs(call('ZRANGE', key, 0, LOOKED_AT - 1)) do
    local kind = string.sub(member, 1, 1)
    local state = (kind == '0' or string.sub(member, 2, 8) == '0000000') and 'waiting' or 'prioritized'
    local id = string.sub(member, kind == '0' and 34 or 41)
    local job = stands(q, id) and load(q, id)
    if job then
      oldest = sooner(oldest, not house[id] and due_of(job) or nil)
      if size <= LOOKED_AT then count[state], count.delayed = count[state] + 1, count.delayed - 1 end
    end
  end
  return oldest
end

-- How many delayed jobs ran before. Of many, not each is looked at: those count that other programs took elsewhere.
local function delayed_again(q)
  local size, again = call('SCARD', q.again), 0
  if size > LOOKED_AT then return math.min(size, call('ZCARD', q.delayed)) end
  for _, id in ipairs(call('SMEMBERS', q.again)) do
    if call('ZSCORE', q.delayed, id) then again = again + 1 end
  end
  return again
end

local function counted(name)
  local q = queue(name)
  local house = house_of(q)
  local count = {
    waiting = call('LLEN', q.wait) + call('LLEN', paused_list(q)), prioritized = call('ZCARD', q.prioritized), delayed = call('ZCARD', q.delayed),
    active = call('LLEN', q.active), completed = call('ZCARD', q.p .. 'completed'),
    failed = call('ZCARD', q.p .. 'failed'),
    ['waiting-children'] = call('ZCARD', q.p .. 'waiting-children'),
  }
  local oldest = sooner(oldest_waiting(q, house, q.wait), oldest_prioritized(q, house))
  oldest = sooner(oldest, oldest_waiting(q, house, paused_list(q)))
  for _, group in ipairs(call('ZRANGE', q.groups, 0, -1)) do
    oldest = sooner(oldest, count_group(q, group, house, count))
  end
  local again = delayed_again(q)
  for id in pairs(house) do
    local job = load(q, id)
    if job then
      local state = state_of(job)
      count[state] = count[state] - 1
      if state == 'delayed' and job.started then again = again - 1 end
    end
  end
  local row = { name }
  for i, place in ipairs(COUNTED) do row[i + 1] = count[place] end
  row[9], row[10] = again, oldest or false
  return row
end

local rows = {}
for name, flag in pairs(known_queues()) do
  if flag == 2 or flag == 1 and asked.hk then rows[#rows + 1] = counted(name) end
end
return rows
