-- include: parts/job.lua
-- include: parts/paused.lua
-- include: parts/sound.lua
-- The ready and the delayed jobs of a queue, in their order.

local function mark(q)
  if not q.marked and not q.paused then
    q.marked = true
    call('ZADD', q.marker, 0, '0')
  end
end
-- Nobody need look for what this script itself has made ready and handed out.
local function unmark(q)
  if q.marked and call('EXISTS', q.wait, q.prioritized, q.groups) == 0 then
    q.marked = nil
    call('ZREM', q.marker, '0')
    if call('EXISTS', q.delayed) == 0 then wf_unwake('queue ' .. q.name) end
  end
end

local function place_at(q, id)
  local job = load(q, id)
  return job and place(job) or ''
end

-- The place of the `at`th in a line, `ahead` being the step to who is served before it, and `first` who is served first.
-- What is ready before its time, as by Node's `promote`, has none: it stands after who is served before it.
local function place_in_line(q, at, ahead, first, id_at)
  while true do
    local job = load(q, id_at(at))
    if job and due_of(job) <= now then return place(job) end
    if not job or at == first then return '' end
    -- There may be many of them together.
    at = ahead > 0 and math.min(at + ahead, first) or math.max(at + ahead, first)
    ahead = 2 * ahead
  end
end

-- How many of `count` steps, counted from 0, come before the first that is `beyond`; steps are in order.
local function steps_before(count, beyond)
  local low, high = 0, count
  while low < high do
    local middle = math.floor((low + high) / 2)
    if beyond(middle) then high = middle else low = middle + 1 end
  end
  return low
end

-- How many of the `length` in a list like `wait`, which is served from its end, come after a place.
local function after_in(q, list, length, mine)
  local function id_at(at) return call('LINDEX', list, at) end
  return steps_before(length, function(at) return place_in_line(q, at, 1, length - 1, id_at) < mine end)
end

-- Into `wait`: mostly to its head, else to where its place is.
local function into_wait(q, job, mine)
  local list, id = list_of(q), job.id
  if job.new and not job.lifo or q.newest and q.newest < mine then
    q.newest = mine
    call('LPUSH', list, id)
    return
  end
  local length = call('LLEN', list)
  local sooner = after_in(q, list, length, mine)
  if sooner == 0 then
    q.newest = mine
    call('LPUSH', list, id)
  elseif sooner == length then
    call('RPUSH', list, id)
  elseif length - sooner <= 100 then
    local popped = call('RPOP', list, length - sooner)
    local again = { id }
    for i = #popped, 1, -1 do again[#again + 1] = popped[i] end
    call('RPUSH', list, unpack(again))
  else
    call('LINSERT', list, 'BEFORE', call('LINDEX', list, sooner), id)
  end
end

-- How many in `prioritized` come before a place; of these, how many of smaller priorities; how many there are of its own.
local function before_in(q, priority, mine)
  local key, low = q.prioritized, priority * 2 ^ 32
  local first = call('ZCOUNT', key, '-inf', '(' .. string.format('%.0f', low))
  local count = call('ZCOUNT', key, low, low + 2 ^ 32 - 1)
  local function id_at(at) return call('ZRANGE', key, at, at)[1] end
  local at = steps_before(count, function(i) return place_in_line(q, first + i, -1, first, id_at) > mine end)
  return first + at, first, count
end

-- Into `prioritized`: after the last of its priority, else between its neighbours, who move up where there is no room.
local function into_prioritized(q, job, mine)
  local key, low = q.prioritized, job.priority * 2 ^ 32
  local high = low + 2 ^ 32 - 1
  local last = call('ZREVRANGEBYSCORE', key, high, low, 'WITHSCORES', 'LIMIT', 0, 1)
  local at, first, count
  local behind = job.new or #last == 0 or place_at(q, last[1]) < mine
  if not behind then
    at, first, count = before_in(q, job.priority, mine)
    behind = at == first + count
  end
  if behind then
    local score = low + call('INCR', q.p .. 'pc') % 2 ^ 32
    call('ZADD', key, math.max(score, (tonumber(last[2]) or low) + 1), job.id)
    return
  end
  local after = tonumber(call('ZRANGE', key, at, at, 'WITHSCORES')[2])
  local before = at > first and tonumber(call('ZRANGE', key, at - 1, at - 1, 'WITHSCORES')[2]) or low - 1
  if after - before < 2 then
    for i = first + count - 1, at, -1 do call('ZINCRBY', key, 1, call('ZRANGE', key, i, i)[1]) end
    after = after + 1
  end
  call('ZADD', key, after - 1, job.id)
end

-- A job of a group is ready in its group's set; for BullMQ it is delayed.
local function group_ready(q, group) return q.ours .. 'group:' .. group .. ':ready' end
local function into_group(q, job, mine)
  call('ZADD', q.delayed, FAR, job.id)
  call('ZADD', q.groups, 0, job.group)
  call('ZADD', group_ready(q, job.group), 0, mine .. job.id)
end
local function out_of_group(q, job, member)
  local ready = group_ready(q, job.group)
  call('ZREM', q.delayed, job.id)
  call('ZREM', ready, member or (place(job) .. job.id))
  if call('EXISTS', ready) == 0 then call('ZREM', q.groups, job.group) end
end

-- Whether a job of a group's set is still ready there: another program may have taken it elsewhere, or deleted it.
local function stands(q, id) return tonumber(call('ZSCORE', q.delayed, id) or 0) == FAR end

local function into_delayed(q, job)
  local due = due_of(job)
  local low = due * 4096
  local last = call('ZREVRANGEBYSCORE', q.delayed, low + 4095, low, 'WITHSCORES', 'LIMIT', 0, 1)
  call('ZADD', q.delayed, last[2] and math.min(tonumber(last[2]) + 1, low + 4095) or low, job.id)
  if job.started then call('SADD', q.again, job.id) end
  local first = call('ZRANGE', q.delayed, 0, 0, 'WITHSCORES')
  call('ZADD', q.marker, math.floor(tonumber(first[2]) / 4096), '1')
end

-- A job is ready, at its place. One that is `new` is behind all others, whatever these say of their time.
local function enlist(job, was)
  if job.wf.n and due_of(job) > now then
    -- Another program has made it ready before its time.
    job.wf.due = now
    save(job)
  end
  local q, mine = job.q, place(job)
  if job.group ~= '' then into_group(q, job, mine)
  elseif job.priority > 0 then into_prioritized(q, job, mine)
  else into_wait(q, job, mine) end
  mark(q)
  if was then event(q, 'waiting', job.id, 'prev', was) else event(q, 'waiting', job.id) end
end

-- A job that nobody runs is where it belongs now: parked, delayed or ready.
local function put(job, was)
  local q = job.q
  if job.wf.parked then
    call('ZADD', q.delayed, FAR, job.id)
    if job.started then call('SADD', q.again, job.id) end
    event(q, 'delayed', job.id, 'delay', due_of(job))
  elseif due_of(job) > now then
    into_delayed(q, job)
    event(q, 'delayed', job.id, 'delay', due_of(job))
  else
    enlist(job, was)
  end
end

-- Looked for from the end that is nearer, which matters in a long list. Returns 1, 0 where it is not there.
local function out_of_wait(q, job)
  local length, from = call('LLEN', q.wait), 1
  if length > 1000 and place_at(q, call('LINDEX', q.wait, math.floor(length / 2))) > place(job) then from = -1 end
  return call('LREM', q.wait, from, job.id)
end

-- Out of wherever it waits.
local function take_out(job, state, grouped)
  local q = job.q
  if grouped then out_of_group(q, job)
  elseif state == 'delayed' then
    call('ZREM', q.delayed, job.id)
    call('SREM', q.again, job.id)
  elseif state == 'waiting' then
    if out_of_wait(q, job) == 0 then call('LREM', paused_list(q), 1, job.id) end
  else call('ZREM', q.p .. state, job.id) end
end

-- What is due becomes ready.
local function ripen(q)
  if q.ripe then return end
  q.ripe = true
  local due = call('ZRANGEBYSCORE', q.delayed, '-inf', (now + 1) * 4096 - 1, 'LIMIT', 0, 1000)
  if #due > 0 then sound(q) end
  for _, id in ipairs(due) do
    call('ZREM', q.delayed, id)
    call('SREM', q.again, id)
    local job = load(q, id)
    if job then
      call('HSET', job.key, 'delay', 0)
      enlist(job, 'delayed')
    end
  end
end
