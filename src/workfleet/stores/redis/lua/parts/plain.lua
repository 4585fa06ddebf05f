-- include: parts/adding.lua
-- New jobs like most, many at once: ready now, without a key, a group, a priority or an end, all of one queue.
-- What is not so is left to `parts/adding.lua`, which means the same.

-- Whether nothing of these ids is there, in this queue or another of the app, and no id twice.
local function all_new(ids, name)
  local seen = {}
  for _, id in ipairs(ids) do
    if seen[id] then return false end
    seen[id] = true
  end
  local keys = {}
  local function of(queue_name)
    local p = prefix .. queue_name .. ':'
    for _, id in ipairs(ids) do keys[#keys + 1] = p .. id end
  end
  if not known_queues()[name] then of(name) end
  for known in pairs(known_queues()) do of(known) end
  local there = call('EXISTS', base .. 'replaced')
  many(keys, function(...) there = there + call('EXISTS', ...) end)
  return there == 0
end

-- Add jobs. `list`: queue, then id, name, data, opts and what `wf` says after its number (`}` or `,"field":…}`), for
-- each. Returns false where it cannot be done here.
local FIELDS = 5
local function add_plain(list, call_id)
  local ids = {}
  for i = 2, #list, FIELDS do ids[#ids + 1] = list[i] end
  local q = queue(list[1])
  sound(q, 'added')
  if q.paused or call_id and call('EXISTS', note_of(call_id)) == 1 then return false end
  if not all_new(ids, q.name) then return false end
  ripen(q)
  local number = tonumber(call('GET', base .. 'number') or 0)
  know(q.name, 2)
  call('INCRBY', base .. 'number', #ids)
  call('HSETNX', q.meta, 'opts.maxLenEvents', q.max_events)
  for i, id in ipairs(ids) do
    local at = (i - 1) * FIELDS + 3
    call('HSET', q.p .. id, 'wf', string.format('{"v":1,"n":%d%s', number + i, list[at + 3]), 'name', list[at], 'data',
      list[at + 1], 'opts', list[at + 2], 'timestamp', now_text, 'delay', '0', 'priority', '0')
    call('XADD', q.events, '*', 'event', 'added', 'jobId', id, 'name', list[at])
    call('XADD', q.events, '*', 'event', 'waiting', 'jobId', id)
  end
  many(ids, function(...) call('LPUSH', q.wait, ...) end)
  call('XTRIM', q.events, 'MAXLEN', '~', q.max_events)
  mark(q)
  call('INCRBY', q.p .. 'id', #ids)
  if call_id then call('SET', note_of(call_id), cjson.encode({ first = number + 1, count = #ids }), 'PX', NOTE_MS) end
  wf_wake('queue ' .. q.name)
  return true
end

-- The same jobs, as `add_all` takes them.
local function spelled_out(list)
  local jobs = {}
  for at = 2, #list, FIELDS do
    local said = cjson.decode('{"v":1' .. list[at + 4])
    jobs[#jobs + 1] = {
      id = list[at], queue = list[1], name = list[at + 1], data = list[at + 2], opts = list[at + 3], priority = 0,
      delay = 0, due = 0, keepc = said.keepc, keepf = said.keepf, spec = said.spec,
    }
  end
  return jobs
end
