-- include: parts/claiming.lua
-- What most jobs are, many at once: ours, run for the first time, with nothing said of them that concerns others. What
-- is not so is left to `parts/ending.lua` and `parts/claiming.lua`, which mean the same.

-- The active jobs of a queue, for many that leave: read and written as a whole where most of them do.
local function leaving(q, ids)
  local length = call('LLEN', q.active)
  if length > 4 * #ids or length > MOST then
    return function(id) return call('LREM', q.active, -1, id) > 0 end, function() end
  end
  local all, there, left = call('LRANGE', q.active, 0, -1), {}, 0
  for _, id in ipairs(all) do there[id] = true end
  local function leave(id)
    if not there[id] then return false end
    there[id], left = nil, left + 1
    return true
  end
  local function write()
    if left == 0 then return end
    local stay = {}
    for _, id in ipairs(all) do
      if there[id] then stay[#stay + 1] = id end
    end
    call('DEL', q.active)
    if #stay > 0 then call('RPUSH', q.active, unpack(stay)) end
  end
  return leave, write
end

-- Jobs of a queue complete. `list`: queue, then id, token, attempts made, result (JSON), what is added to `wf`
-- (`,"field":…}`), for each. Returns what could not be done here, as `settle` takes it: position -> settlement.
local FIELDS = 5
local function complete_many(list)
  local q, ids, locks, families = queue(list[1]), {}, {}, {}
  for i = 2, #list, FIELDS do
    local key = q.p .. list[i]
    ids[#ids + 1], locks[#locks + 1] = list[i], key .. ':lock'
    families[#families + 1], families[#families + 2] = key .. ':dependencies', key .. ':unsuccessful'
  end
  local tokens, parents = {}, 0
  many(locks, function(...)
    for _, token in ipairs(call('MGET', ...)) do tokens[#tokens + 1] = token end
  end)
  many(families, function(...) parents = parents + call('EXISTS', ...) end)

  local leave, write = leaving(q, ids)
  local completed, rest = {}, {}
  for i, id in ipairs(ids) do
    local at = 2 + (i - 1) * FIELDS
    local key, f = q.p .. id, nil
    if parents == 0 and tokens[i] == list[at + 1] then f = call('HMGET', key, 'wf', 'atm', 'deid', 'parentKey') end
    local text = f and not f[2] and not f[3] and not f[4] and f[1]
    if text and string.byte(text, -1) == 125 and leave(id) then
      unlock(q, id)
      call('HSET', key, 'wf', string.sub(text, 1, -2) .. list[at + 4], 'finishedOn', now_text, 'atm', list[at + 2],
        'returnvalue', list[at + 3])
      call('XADD', q.events, 'MAXLEN', '~', q.max_events, '*', 'event', 'completed', 'jobId', id, 'returnvalue',
        list[at + 3], 'prev', 'active')
      completed[#completed + 1], completed[#completed + 2] = now_text, id
    else
      rest[i] = {
        hint = q.name, id = id, token = list[at + 1], state = 'completed', made = list[at + 2],
        result = list[at + 3], ours = '{' .. string.sub(list[at + 4], 2),
      }
    end
  end
  write()
  if #completed > 0 then
    many(completed, function(...) call('ZADD', q.p .. 'completed', ...) end)
    count_end(q, 'completed', #completed / 2)
    free_slot(q, '')
    q.ended = true
  end
  return rest, #ids
end

-- Up to so many of the next jobs of a queue, as rows: queue, id, then FRESH. Fewer, or none, where a limit or a turn
-- has to be looked at, or a job that is not like most.
local FRESH = { 'name', 'data', 'timestamp', 'priority', 'progress', 'wf', 'ats', 'atm', 'stc', 'defa', 'rjk' }
local function is_fresh(f)
  local wf = f[6]
  return f[3] and wf and not (f[7] or f[8] or f[9] or f[10] or f[11]) and string.find(wf, '"n":', 1, true)
    and not string.find(wf, '"key":', 1, true) and not string.find(wf, '"group":', 1, true)
end
local function next_fresh(q, most)
  local ids, found, rows = call('LRANGE', q.wait, -most, -1), {}, {}
  for i = #ids, 1, -1 do
    local f = call('HMGET', q.p .. ids[i], unpack(FRESH))
    if not is_fresh(f) then break end
    found[#found + 1] = ids[i]
    rows[#rows + 1] = { q.name, ids[i], f[1], f[2], f[3], f[4], f[5], f[6] }
  end
  return found, rows
end
local function take_many(q, most)
  if q.paused or q.concurrency or q.max then return {} end
  if q.in_turns == nil then
    ripen(q)
    q.in_turns = call('EXISTS', q.groups) == 1
  end
  if q.in_turns then return {} end
  local ids, rows = next_fresh(q, math.min(most, 1000))
  if #ids == 0 then return rows end
  call('RPOP', q.wait, #ids)
  call('LPUSH', q.active, unpack(ids))
  local worker, token, lease = asked.claim.worker, asked.claim.token, math.max(asked.claim.lease_ms, 1)
  local noted, note = q.noted or {}, (now + asked.claim.lease_ms) .. '\n' .. token .. '\n' .. worker .. '\n'
  q.noted = noted
  for _, id in ipairs(ids) do
    local key = q.p .. id
    call('HSET', key, 'processedOn', now_text, 'pb', worker, 'ats', '1')
    call('SET', key .. ':lock', token, 'PX', lease)
    call('XADD', q.events, 'MAXLEN', '~', q.max_events, '*', 'event', 'active', 'jobId', id, 'prev', 'waiting')
    noted[#noted + 1], noted[#noted + 2] = id, note
  end
  if q.running then q.running[WHOLE] = q.running[WHOLE] + #ids end
  return rows
end

-- One that takes all it can has popped a marker, and may not come back for long: another one shall look at the rest.
local function pass_on(q)
  if q.paused then return end
  if call('EXISTS', q.wait, q.prioritized, q.groups) > 0 then mark(q) end
  local first = call('ZRANGE', q.delayed, 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) < FAR then
    call('ZADD', q.marker, math.floor(tonumber(first[2]) / 4096), '1')
  end
end

-- Claim for `asked.claim`: worker, token, lease_ms, total, wants ({queue, share, limit} each). Rows: of `take_many`, or
-- of `take`, or of what the token was given before.
local function claim()
  local rows = held_by(asked.claim.token)
  if #rows > 0 then return rows end
  local given, total = {}, asked.claim.total or math.huge
  for round = 2, 3 do
    for i, want in ipairs(asked.claim.wants) do
      given[i] = given[i] or 0
      local q = queue(want[1])
      while given[i] < want[round] and #rows < total do
        local some = take_many(q, math.min(want[round] - given[i], total - #rows))
        if #some == 0 then some = { take(q) } end
        if #some == 0 then break end
        given[i] = given[i] + #some
        for _, one in ipairs(some) do rows[#rows + 1] = one end
      end
    end
  end
  for i, want in ipairs(asked.claim.wants) do
    if given[i] > 0 and (given[i] >= want[3] or #rows >= total) then pass_on(queue(want[1])) end
  end
  remember(asked.claim.token, rows)
  return rows
end
