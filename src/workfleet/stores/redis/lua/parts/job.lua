-- include: parts/names.lua
-- One job: BullMQ's fields, and ours in `wf`, a flat JSON object. What is JSON within it is text, so that nothing of it
-- changes when the object is written again:
--   v 1, n number, due (where it is not `timestamp`), delay asked for, lifo, group, key, rule (JSON), hk housekeeping,
--   after and exp: expiry, keepc and keepf: own retention (JSON), spec: whatever else was said (JSON), parked, cancel,
--   code, failure (JSON), settled (token), deferrals, suspicions, history (list of JSON), report (call),
--   by (ids of newcomers) and bycall
-- Where the first run completed and there is no more to say of it, `wfd` says it, and `wf` stays as it was: the time in
-- `finishedOn` (of another one it says nothing: BullMQ has run the job again), when the run ended, and the token.
local SHOWN = {
  'name', 'data', 'opts', 'timestamp', 'priority', 'processedOn', 'finishedOn', 'progress', 'returnvalue',
  'failedReason', 'atm', 'stc', 'pb', 'wf', 'ats', 'defa', 'wfd',
}

local TYPES = {
  n = 'number', due = 'number', group = 'string', key = 'string', rule = 'string', history = 'table', by = 'table',
  keepc = 'string', keepf = 'string', exp = 'number', after = 'number',
}

-- What somebody else has written may be anything.
local function whole(said)
  local number = tonumber(said)
  return number and math.abs(number) < FAR and math.floor(number) == number and number or nil
end

-- Fields of a job. A key that is no hash is no job.
local function fields_of(key, ...)
  local f = redis.pcall('HMGET', key, ...)
  if not f.err then return f end
  return string.find(f.err, 'WRONGTYPE', 1, true) and {} or call('HMGET', key, ...)
end
local function opened(text)
  local fine, wf = pcall(cjson.decode, text or '{"v":1}')
  if not fine or type(wf) ~= 'table' then return { v = 1 }, true end
  for field, kind in pairs(TYPES) do
    if wf[field] ~= nil and type(wf[field]) ~= kind then return { v = 1 }, true end
  end
  return wf, false
end

-- A job, nil where there is none. `broken`: its `wf` cannot be read, and is left as it is.
local function load(q, id)
  local key = q.p .. id
  local f = fields_of(key, 'timestamp', 'priority', 'processedOn', 'finishedOn', 'wf', 'deid', 'atm', 'opts',
    'parentKey')
  if not f[1] then return nil end
  local wf, broken = opened(f[5])
  local lifo = wf.lifo or (not wf.n and f[8] and string.find(f[8], '"lifo":true', 1, true) ~= nil)
  return {
    q = q, id = id, key = key, created = whole(f[1]) or 0, priority = whole(f[2]) or 0, started = f[3],
    finished = f[4], deid = f[6], settled = f[7], parent = f[9], wf = wf, broken = broken, lifo = lifo, group = wf.group or '',
  }
end

local function save(job, ...)
  if job.broken then
    if select('#', ...) > 0 then call('HSET', job.key, ...) end
  else
    call('HSET', job.key, 'wf', cjson.encode(job.wf), ...)
  end
end

local function due_of(job) return job.wf.due or job.created end

-- Its place among the ready: as text, smaller is served sooner. Last in first out, then by priority and first in.
local function place(job)
  local due, n = due_of(job), job.wf.n or 0
  if job.lifo and job.priority == 0 then return string.format('0%016d%016d', 1e15 - due, 1e15 - n) end
  return string.format('1%07d%016d%016d', job.priority, due, n)
end

-- Where a job is: membership says it, as in BullMQ. The second value: it is ready and in its group's set.
local function state_of(job)
  local q, id = job.q, job.id
  if job.finished then
    if call('ZSCORE', q.p .. 'completed', id) then return 'completed' end
    if call('ZSCORE', q.p .. 'failed', id) then return 'failed' end
  end
  local score = call('ZSCORE', q.delayed, id)
  if score then
    if job.group ~= '' and not job.wf.parked and tonumber(score) == FAR then
      return job.priority > 0 and 'prioritized' or 'waiting', true
    end
    return 'delayed'
  end
  if call('ZSCORE', q.prioritized, id) then return 'prioritized' end
  if call('LPOS', q.active, id) then return 'active' end
  if call('ZSCORE', q.p .. 'waiting-children', id) then return 'waiting-children' end
  return 'waiting'
end

-- The queues that have a job of this id: one for ours, maybe several where BullMQ counted. `within`: look there only.
local function places(id, within)
  if within and within ~= '' then return call('EXISTS', prefix .. within .. ':' .. id) == 1 and { within } or {} end
  local keys, names, there = {}, {}, {}
  for name in pairs(known_queues()) do
    names[#names + 1] = name
    keys[#keys + 1] = prefix .. name .. ':' .. id
  end
  if #keys == 0 or call('EXISTS', unpack(keys)) == 0 then return there end
  for i, key in ipairs(keys) do
    if call('EXISTS', key) == 1 then there[#there + 1] = names[i] end
  end
  return there
end
local function locate(id, within) return places(id, within)[1] end

local function find(id, within)
  local name = locate(id, within)
  return name and load(queue(name), id)
end

-- Our claim on a job, as noted: lease end, token, holder, and what identifies the start (`processedOn`), which older
-- notes do not say; nothing where there is none.
local function claim_of(q, id)
  local text = call('HGET', q.claims, id)
  if not text then return nil end
  local till, token, holder, rest = string.match(text, '^(%d+)\n([^\n]*)\n([^\n]*)\n(.*)$')
  return tonumber(till), token, holder, string.match(rest or '', '\n(.*)$')
end

-- The same, where it still stands: a note is void once another program holds the job, or has begun it since.
local function standing_claim(q, id)
  local till, token, holder, start = claim_of(q, id)
  if not till then return nil end
  local locked, stands = call('GET', q.p .. id .. ':lock'), nil
  if locked then stands = locked == token
  else
    local begun = fields_of(q.p .. id, 'processedOn')[1] or ''
    -- It begins a job only after the lease, which is what there is to go by where the note says no start.
    if start then stands = begun == start else stands = (tonumber(begun) or 0) <= till end
  end
  if stands then return till, token, holder end
end

-- A lock as BullMQ's workers know it, and our note of it. Notes are written together, by `flush`. `run`: the group and
-- the start, as the note has them.
local function lock(q, id, token, lease_ms, holder, run)
  call('SET', q.p .. id .. ':lock', token, 'PX', math.max(lease_ms, 1))
  local noted = q.noted or {}
  q.noted = noted
  noted[#noted + 1] = id
  noted[#noted + 1] = (now + lease_ms) .. '\n' .. token .. '\n' .. holder .. '\n' .. run
end
local function unlock(q, id)
  local free = q.free or { keys = {}, ids = {} }
  q.free = free
  free.keys[#free.keys + 1], free.ids[#free.ids + 1] = q.p .. id .. ':lock', id
end
local MOST = 5000 -- values that Lua can hand over at once, with room
local function many(list, each)
  for i = 1, #list, MOST do each(unpack(list, i, math.min(i + MOST - 1, #list))) end
end
local function flush(q)
  if q.free then
    many(q.free.keys, function(...) call('DEL', ...) end)
    many(q.free.ids, function(...) call('HDEL', q.claims, ...) end)
    many(q.free.ids, function(...) call('SREM', q.p .. 'stalled', ...) end)
    q.free = nil
  end
  if q.noted then
    many(q.noted, function(...) call('HSET', q.claims, ...) end)
    q.noted = nil
  end
end

-- Whether a claim still holds. It holds beyond its lease, until another one is made.
local function holds_in(q, id, token)
  local locked = call('GET', q.p .. id .. ':lock')
  if locked then return locked == token end
  local _, ours = standing_claim(q, id)
  return ours == token and call('LPOS', q.active, id) ~= false
end

-- What the caller reads of a job: queue, id, state, token, lease end or when a delayed one is due, then SHOWN.
local function row(q, id)
  local fields = fields_of(q.p .. id, unpack(SHOWN))
  if not fields[4] then return false end
  local wf = opened(fields[14])
  local state = state_of({
    q = q, id = id, finished = fields[7], priority = tonumber(fields[5]) or 0, group = wf.group or '', wf = wf,
  })
  local till, token
  if state == 'active' then till, token = standing_claim(q, id) end
  if state == 'delayed' then
    local score = tonumber(call('ZSCORE', q.delayed, id))
    till = score < FAR and math.floor(score / 4096)
  end
  return { q.name, id, state, token or false, till or false, fields }
end
