-- include: parts/claiming.lua
-- What most jobs are, many at once: ours, run for the first time, with nothing said of them that concerns others. What
-- is not so is left to `parts/ending.lua` and `parts/claiming.lua`, which mean the same.

local complete_many
do -- a script has at most 200 locals: these are of `complete_many` alone

-- The active jobs of a queue, for many that leave. They are mostly its oldest ones, which are taken in one go; else the
-- list is read and written as a whole where most of it leaves.
local function leave_oldest(q, ids, wanted)
  if not wanted[call('LINDEX', q.active, -1)] or not wanted[call('LINDEX', q.active, -#ids)] then return nil end
  local popped, there, stay = call('RPOP', q.active, #ids), {}, {}
  for i = #popped, 1, -1 do
    if wanted[popped[i]] then there[popped[i]] = true else stay[#stay + 1] = popped[i] end
  end
  if #stay > 0 then call('RPUSH', q.active, unpack(stay)) end
  return there
end
local function leave_any(q, wanted)
  local there, stay = {}, {}
  for _, id in ipairs(call('LRANGE', q.active, 0, -1)) do
    if wanted[id] then there[id] = true else stay[#stay + 1] = id end
  end
  call('DEL', q.active)
  many(stay, function(...) call('RPUSH', q.active, ...) end)
  return there
end
-- Which of these were active: they are no more. Each is in the list once.
local function leave_active(q, ids)
  local wanted, there = {}, {}
  for _, id in ipairs(ids) do wanted[id] = true end
  if #ids <= MOST then there = leave_oldest(q, ids, wanted) or there end
  local left = {}
  for _, id in ipairs(ids) do
    if not there[id] then left[#left + 1] = id end
  end
  if #left > 1 and call('LLEN', q.active) <= 4 * #left then
    for id in pairs(leave_any(q, wanted)) do there[id] = true end
  else
    for _, id in ipairs(left) do
      if call('LREM', q.active, -1, id) > 0 then there[id] = true end
    end
  end
  return there
end

-- The tokens of the locks of many jobs, and whether one of these has children that concern its end.
local function look_at(q, ids)
  local locks, families = {}, {}
  for i, id in ipairs(ids) do
    local key = q.p .. id
    locks[i] = key .. ':lock'
    families[2 * i - 1], families[2 * i] = key .. ':dependencies', key .. ':unsuccessful'
  end
  local tokens, parents = {}, 0
  many(locks, function(...)
    for _, token in ipairs(call('MGET', ...)) do tokens[#tokens + 1] = token end
  end)
  many(families, function(...) parents = parents + call('EXISTS', ...) end)
  return tokens, parents > 0
end

-- What `settle` takes, of an item of `complete_many` that is not like most.
local function settlement(q, id, token, result, ended)
  local f = fields_of(q.p .. id, 'processedOn', 'pb')
  local run = {
    number = 1, outcome = 'completed', started_ms = tonumber(f[1]) or tonumber(ended), ended_ms = tonumber(ended),
    worker = f[2] or nil,
  }
  local ours = { code = 'completed', settled = token, history = { cjson.encode(run) } }
  return {
    queue = q.name, id = id, token = token, state = 'completed', made = '1', result = result, ours = cjson.encode(ours),
  }
end

-- Jobs that are not to be kept are gone. Most have nothing beside their hash.
local function erase_many(q, ids, token)
  local keys, others, more = q.free.keys, {}, 0
  for i, id in ipairs(ids) do
    local key = q.p .. id
    keys[#keys + 1] = key
    others[3 * i - 2], others[3 * i - 1], others[3 * i] = key .. ':logs', key .. ':processed', key .. ':failed'
  end
  many(others, function(...) more = more + call('EXISTS', ...) end)
  if more > 0 then many(others, function(...) call('DEL', ...) end) end
  know_erased(q, token, ids)
end

-- The first runs of jobs of a queue complete. `list`: queue, token, 1 where they are not to be kept, then id, result
-- (JSON) and when the run ended, for each. Returns what could not be done here, position -> what `settle` takes, and how
-- many they are. What a run of most jobs adds to `wf` stands in `wfd`: "<finishedOn> <end of the run> <token>".
local FIELDS = 3
function complete_many(list)
  local q, token, brief, ids = queue(list[1]), list[2], list[3] == 1, {}
  for i = 4, #list, FIELDS do ids[#ids + 1] = list[i] end
  local tokens, parents = look_at(q, ids)
  local able, ready = {}, {}
  if not parents then
    for i, id in ipairs(ids) do
      if tokens[i] == token and not ready[id] then
        local f = fields_of(q.p .. id, 'wf', 'parentKey')
        if f[1] and not f[2] then able[#able + 1], ready[id] = id, true end
      end
    end
  end
  local there = #able > 0 and leave_active(q, able) or {}
  local said, gone, rest = {}, {}, {}
  for i, id in ipairs(ids) do
    local at = 1 + i * FIELDS
    if there[id] then
      there[id] = nil
      unlock(q, id)
      if brief then gone[#gone + 1] = id
      else
        call('HSET', q.p .. id, 'finishedOn', now_text, 'atm', '1', 'returnvalue', list[at + 1], 'wfd',
          now_text .. ' ' .. list[at + 2] .. ' ' .. token)
        said[#said + 1], said[#said + 2] = now_text, id
      end
      call('XADD', q.events, '*', 'event', 'completed', 'jobId', id, 'returnvalue', list[at + 1], 'prev', 'active')
    else
      rest[i] = settlement(q, id, token, list[at + 1], list[at + 2])
    end
  end
  if #able > 0 then
    q.told = true
    many(said, function(...) call('ZADD', q.p .. 'completed', ...) end)
    if #gone > 0 then erase_many(q, gone, token) end
    local count = #said / 2 + #gone
    if count > 0 then
      count_end(q, 'completed', count)
      free_slot(q, '')
      q.ended = true
    end
  end
  return rest, #ids
end

end

-- Up to so many of the next jobs of a queue, as rows: queue, id, then FRESH. Fewer, or none, where a limit or a turn
-- has to be looked at, or a job that is not like most.
local FRESH = { 'name', 'data', 'timestamp', 'priority', 'progress', 'wf', 'ats', 'atm', 'stc', 'defa' }
local function is_fresh(f)
  local wf = f[6]
  return f[3] and wf and not (f[7] or f[8] or f[9] or f[10]) and string.find(wf, '"n":', 1, true)
    and not string.find(wf, '"key":', 1, true) and not string.find(wf, '"group":', 1, true)
end
local function next_fresh(q, most)
  local ids, found, rows = call('RPOP', q.wait, most) or {}, {}, {}
  for i, id in ipairs(ids) do
    local f = fields_of(q.p .. id, unpack(FRESH))
    if not is_fresh(f) then
      local back = {}
      for j = #ids, i, -1 do back[#back + 1] = ids[j] end
      call('RPUSH', q.wait, unpack(back))
      break
    end
    found[i], rows[i] = id, { q.name, id, f[1], f[2], f[3], f[4], f[5], f[6] }
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
  call('LPUSH', q.active, unpack(ids))
  local worker, token, lease = asked.claim.worker, asked.claim.token, math.max(asked.claim.lease_ms, 1)
  local noted, note = q.noted or {}, (now + asked.claim.lease_ms) .. '\n' .. token .. '\n' .. worker .. '\n\n' .. now_text
  q.noted = noted
  for _, id in ipairs(ids) do
    local key = q.p .. id
    call('HSET', key, 'processedOn', now_text, 'pb', worker, 'ats', '1')
    call('SET', key .. ':lock', token, 'PX', lease)
    call('XADD', q.events, '*', 'event', 'active', 'jobId', id, 'prev', 'waiting')
    noted[#noted + 1], noted[#noted + 2] = id, note
  end
  q.told = true
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

-- Claim for `asked.claim`: worker, token, lease_ms, total, wants ({queue, share, limit} each); where the token has been
-- given something and more is wanted, `known`: {queue, id} of that. Rows: of `take_many`, or of `take`, or of what the
-- token was given before and is not known.
local function claim()
  local held, known, rows = held_by(asked.claim.token), {}, {}
  for _, at in ipairs(asked.claim.known or {}) do known[at[1] .. '\n' .. at[2]] = true end
  for _, one in ipairs(held) do
    if not known[one[1] .. '\n' .. one[2]] then rows[#rows + 1] = one end
  end
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
    if given[i] > 0 then
      unmark(queue(want[1]))
      if given[i] >= want[3] or #rows >= total then pass_on(queue(want[1])) end
    end
  end
  for _, one in ipairs(rows) do held[#held + 1] = one end
  remember(asked.claim.token, held)
  return rows
end
