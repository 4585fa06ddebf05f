-- include: parts/ending.lua
-- Who gets which job: ready jobs within the limits, in turns. WHOLE in the place of a group: the whole queue.
local WHOLE = false
local NOBODY = {}

local function limits_of(q, group)
  if group == '' then return NOBODY end
  if not q.limits then q.limits = cjson.decode(call('GET', q.ours .. 'queue:limits') or '{}') end
  local said = q.limits
  return said.groups and said.groups[group] or said.group or NOBODY
end

local function number(value) return type(value) == 'number' and value or nil end

local function concurrency_of(q, group)
  if group == WHOLE then return q.concurrency end
  return number(limits_of(q, group).concurrency)
end

-- A rate: how many starts, in how many milliseconds.
local function rate_of(q, group)
  if group == WHOLE then
    if q.max and q.duration then return q.max, q.duration end
    return nil
  end
  local rate = limits_of(q, group).rate
  if type(rate) == 'table' then return rate.limit, rate.per_ms end
end

local function starts_of(q, group)
  if group == WHOLE then return q.ours .. 'queue:starts' end
  return q.ours .. 'group:' .. group .. ':starts'
end

-- When the rate lets one more job start: now, later, or never (nil).
local function free_ms(q, group)
  local limit, per = rate_of(q, group)
  if not limit then return now end
  if group == WHOLE and tonumber(call('GET', q.p .. 'limiter') or 0) >= limit then
    -- The window of BullMQ is used up, or one of its workers asked for a pause of so long.
    local wait = call('PTTL', q.p .. 'limiter')
    if wait > 0 then return now + wait end
  end
  local starts = starts_of(q, group)
  -- A start at t is within every window that begins after t - per: the last such instant is t + per - 1.
  if call('ZCOUNT', starts, '(' .. (now - per), '+inf') < limit then return now end
  if limit <= 0 then return nil end
  return tonumber(call('ZREVRANGE', starts, limit - 1, limit - 1, 'WITHSCORES')[2]) + per
end

-- How many jobs of a group, or of the queue, are active; counted once a call.
local function running(q, group)
  if not q.running then
    q.running = { [WHOLE] = call('LLEN', q.active) }
    for _, claim in ipairs(call('HVALS', q.claims)) do
      local of = string.match(claim, '^[^\n]*\n[^\n]*\n[^\n]*\n([^\n]*)')
      if of ~= '' then q.running[of] = (q.running[of] or 0) + 1 end
    end
  end
  return q.running[group] or 0
end

local function may_start(q, group)
  local most = concurrency_of(q, group)
  return (not most or running(q, group) < most) and free_ms(q, group) == now
end

-- Whose turn it is: the group that is served while its turn goes on, else the first name after it, else the first.
local function turn(q)
  if not q.turn then
    local kept = call('HMGET', q.ours .. 'queue:turn', 'served', 'jobs')
    q.turn = { served = kept[1], jobs = tonumber(kept[2]) or 0 }
  end
  return q.turn
end
local function goes_on(q, group)
  local t = turn(q)
  return t.served == group and t.jobs < (number(limits_of(q, group).weight) or 1)
end
local function has_ready(q, group)
  if group ~= '' then return call('ZSCORE', q.groups, group) ~= false end
  return call('EXISTS', q.wait, q.prioritized) > 0
end

-- The first group by name after one that has ready jobs and may start one.
local function first_after(q, from)
  while true do
    local names = call('ZRANGEBYLEX', q.groups, from, '+', 'LIMIT', 0, 20)
    for _, name in ipairs(names) do
      if may_start(q, name) then return name end
    end
    if #names < 20 then return nil end
    from = '(' .. names[#names]
  end
end
local function next_turn(q)
  local served = turn(q).served
  if served and goes_on(q, served) and has_ready(q, served) and may_start(q, served) then return served end
  return (served and first_after(q, '(' .. served)) or (has_ready(q, '') and '') or first_after(q, '-')
end

-- The next ready job of a group. What another program took out of `delayed` waits elsewhere, or is gone.
local function pop_of_group(q, group)
  local ready = group_ready(q, group)
  local member, id = call('ZRANGE', ready, 0, 0)[1], nil
  while member and not id do
    -- A place is 33 or 40 characters long: see `parts/job.lua`.
    id = string.sub(member, string.sub(member, 1, 1) == '0' and 34 or 41)
    if not stands(q, id) then
      call('ZREM', ready, member)
      member, id = call('ZRANGE', ready, 0, 0)[1], nil
    end
  end
  if not id then
    call('ZREM', q.groups, group)
    return nil
  end
  out_of_group(q, { q = q, id = id, group = group }, member)
  call('LPUSH', q.active, id)
  return id
end

-- The id of the next ready job of a group; it is active from now on.
local function pop(q, group)
  if group ~= '' then return pop_of_group(q, group) end
  local id = call('RPOPLPUSH', q.wait, q.active)
  if id then return id end
  id = call('ZPOPMIN', q.prioritized)[1]
  if id then
    call('LPUSH', q.active, id)
    q.popped = true
  end
  return id
end

-- BullMQ counts starts in `limiter`, in windows that begin with a start. Ours are in no more of them than our rate lets
-- through, so that this holds up its workers, and none of ours.
local function count_for_bullmq(q)
  local key = q.p .. 'limiter'
  if call('PTTL', key) == 0 then call('DEL', key) end -- over at this very instant
  if call('INCR', key) == 1 then call('PEXPIREAT', key, now + q.duration) end
end

local function note_start(q, group)
  local limit = rate_of(q, group)
  if not limit then return end
  -- Each start counts, also of a job that was deleted and came again since.
  call('ZADD', starts_of(q, group), now, call('INCR', base .. 'number'))
  -- Old ones go with `prune`; never so many that it matters.
  call('ZREMRANGEBYRANK', starts_of(q, group), 0, -(limit + 10000))
  if group ~= WHOLE then call('SADD', q.ours .. 'queue:rated', group) else count_for_bullmq(q) end
end

-- A job runs from now on. Returns its row, false where there is no such job (any more).
local function start(q, id)
  local key = q.p .. id
  local fields = fields_of(key, unpack(SHOWN))
  if not fields[4] then
    call('LREM', q.active, 1, id)
    return false
  end
  local text = fields[14]
  if text and string.find(text, '"parked":true', 1, true) then
    -- Another program has promoted it, and who it waits for goes on.
    call('LREM', q.active, 1, id)
    call('ZADD', q.delayed, FAR, id)
    return false
  end
  if text and string.find(text, '"key":', 1, true) and not fields[6] then
    local job = load(q, id)
    if job and job.wf.key then start_key(job) end
  end
  local group = text and string.find(text, '"group":', 1, true) and opened(text).group or ''
  local runs = (whole(fields[15]) or 0) + 1
  -- One that only fails takes nothing of a rate.
  if not fields[16] then
    note_start(q, WHOLE)
    if group ~= '' then note_start(q, group) end
  end
  call('HSET', key, 'processedOn', now_text, 'pb', asked.claim.worker, 'ats', runs)
  lock(q, id, asked.claim.token, asked.claim.lease_ms, asked.claim.worker, group .. '\n' .. now_text)
  event(q, 'active', id, 'prev', 'waiting')
  if q.running then
    q.running[WHOLE] = q.running[WHOLE] + 1
    if group ~= '' then q.running[group] = (q.running[group] or 0) + 1 end
  end
  if q.in_turns then
    local t = turn(q)
    t.jobs = goes_on(q, group) and t.jobs + 1 or 1
    t.served = group
    q.turned = true
  end
  fields[6], fields[13] = now_text, asked.claim.worker
  if not text then know(q.name, 2) end
  return { q.name, id, 'active', asked.claim.token, now + asked.claim.lease_ms, fields }
end

-- Hand out one more job of a queue, nil when there is none that may start.
local function take(q)
  if q.in_turns == nil then
    ripen(q)
    q.in_turns = call('EXISTS', q.groups) == 1
  end
  while not q.paused and may_start(q, WHOLE) do
    local group = ''
    if q.in_turns then group = next_turn(q) end
    local id = group and pop(q, group)
    if not id and (group or '') == '' then return nil end
    local given = id and start(q, id)
    if given then return given end
  end
end

-- The ids of a queue's active jobs, in order. Claims on others are forgotten: another program took these jobs back.
local function active_of(q)
  local ids, there = call('LRANGE', q.active, 0, -1), {}
  for _, id in ipairs(ids) do there[id] = true end
  for _, id in ipairs(call('HKEYS', q.claims)) do
    if not there[id] then call('HDEL', q.claims, id) end
  end
  return ids
end

-- What a token was given before and still holds.
local function held_by(token)
  local note = call('GET', base .. 'call:' .. token .. ':v')
  local rows = {}
  if not note then return rows end
  local given = cmsgpack.unpack(note)
  for i = 1, #given, 2 do
    local q, id = queue(given[i]), given[i + 1]
    if holds_in(q, id, token) then rows[#rows + 1] = row(q, id) end
  end
  return rows
end

-- Remember what a token was given.
local function remember(token, rows)
  if #rows == 0 then return end
  local note = {}
  for i, given in ipairs(rows) do note[2 * i - 1], note[2 * i] = given[1], given[2] end
  call('SET', base .. 'call:' .. token .. ':v', cmsgpack.pack(note), 'PX', math.max(KNOWN_MS, asked.claim.lease_ms))
end

-- After a call: whose turn it is, the counters, the next waiter, and whether all is done.
local function leave(q)
  flush(q)
  if q.told then call('XTRIM', q.events, 'MAXLEN', '~', q.max_events) end
  if q.turned then call('HSET', q.ours .. 'queue:turn', 'served', q.turn.served, 'jobs', q.turn.jobs) end
  if q.popped and call('EXISTS', q.prioritized) == 0 then call('DEL', q.p .. 'pc') end
  if q.ended and call('EXISTS', q.wait, q.active, q.prioritized) == 0 then
    call('XADD', q.events, 'MAXLEN', '~', q.max_events, '*', 'event', 'drained')
  end
end
