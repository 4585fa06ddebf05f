-- include: parts/claiming.lua
-- include: parts/kept_keys.lua
-- include: parts/lock.lua
-- Deletes finished jobs by rules and by their own, and what nobody needs any more: starts that no rate counts, claims
-- on jobs that other programs ended and their unique keys, expired locks. Asked: rules (state, age_ms, count, hk), limit,
-- most: how many to look at, from: where the last call ended (or nothing).
-- Returns how many, and where it ended: nothing at the end; and the topics that woke.
local count, left = 0, asked.most
local PAGE = 100

-- Deletes one that is too old or one too many. One that cannot be read stays. Returns whether it is gone.
local function pruned(q, state, key, id)
  local job = call('ZSCORE', q.p .. state, id) and load(q, id)
  if not job then
    -- BullMQ has deleted it, or retried it.
    call('ZREM', key, id)
    return true
  end
  if job.broken or job.wf.code == 'undecodable' then return false end
  discard(job, state, false, 'pruned')
  count = count + 1
  return true
end

-- Ids and scores as they are; of those that ended in one instant, who was enqueued first comes first.
local function in_order(q, page)
  local entries, tied = {}, false
  for i = 1, #page, 2 do
    tied = tied or page[i + 1] == page[i - 1]
    entries[#entries + 1] = { page[i], page[i + 1] }
  end
  if not tied then return page end
  for _, entry in ipairs(entries) do
    entry[3] = tonumber(string.match(fields_of(q.p .. entry[1], 'wf')[1] or '', '"n":(%d+)')) or 0
  end
  table.sort(entries, function(one, other)
    if one[2] ~= other[2] then return tonumber(one[2]) < tonumber(other[2]) end
    return one[3] < other[3]
  end)
  for i, entry in ipairs(entries) do page[2 * i - 1], page[2 * i] = entry[1], entry[2] end
  return page
end

-- Those of a set that are too old or too many, the oldest first. `others`: the sets of other classes, `at` and `seen`:
-- how many stay, of all and of this class. Returns these two where there is more to look at.
local function beyond(q, it, at, seen)
  local size = call('ZCARD', it.key)
  for _, other in ipairs(it.others) do size = size - call('ZCARD', other) end
  local too_many = it.most and math.max(size - it.most, 0) or 0
  local before = it.age and now - it.age or -math.huge
  local function is_other(id)
    for _, other in ipairs(it.others) do
      if call('ZSCORE', other, id) then return true end
    end
  end
  while count < asked.limit do
    local page = in_order(q, call('ZRANGE', it.key, at, at + PAGE - 1, 'WITHSCORES'))
    if #page == 0 then return nil end
    for i = 1, #page, 2 do
      if left <= 0 then return at, seen end
      if count >= asked.limit then return nil end
      left = left - 1
      if is_other(page[i]) then at = at + 1
      elseif seen >= too_many and tonumber(page[i + 1]) >= before then return nil
      elseif pruned(q, it.state, it.key, page[i]) then too_many = too_many - 1
      else at, seen = at + 1, seen + 1 end
    end
  end
end

-- What is to be looked at in a queue: a set each, with the rule that holds there.
local function tasks_of(q)
  local classes, tasks = {}, {}
  local texts = call('SMEMBERS', q.ours .. 'queue:kept')
  table.sort(texts)
  for _, text in ipairs(texts) do
    local state, class = string.match(text, '^([^\n]*)\n(.*)$')
    local key = kept(q, state, class)
    if call('EXISTS', key) == 0 then call('SREM', q.ours .. 'queue:kept', text)
    else classes[#classes + 1] = { state = state, class = class, key = key } end
  end
  for _, rule in ipairs(asked.rules) do
    local others = {}
    for _, it in ipairs(classes) do
      if it.state == rule.state then others[#others + 1] = it.key end
    end
    local key = rule.hk and kept(q, rule.state, 'house') or q.p .. rule.state
    if rule.state == 'completed' or rule.state == 'failed' then
      tasks[#tasks + 1] = {
        state = rule.state, key = key, others = rule.hk and {} or others, age = rule.age_ms, most = rule.count,
      }
    end
  end
  for _, it in ipairs(classes) do
    if it.class ~= 'house' and it.class ~= FOR_EVER then
      local rule = cjson.decode(it.class)
      tasks[#tasks + 1] = {
        state = it.state, key = it.key, others = {}, age = number(rule.age_ms), most = number(rule.count),
      }
    end
  end
  return tasks
end

local function forget_starts(q, group)
  local limit, per = rate_of(q, group)
  if limit then call('ZREMRANGEBYSCORE', starts_of(q, group), '-inf', now - per)
  else call('DEL', starts_of(q, group)) end
end

-- No rule ever looks at those that are kept for ever, some of whom another program may have deleted, or retried.
local function forget_gone(q, state)
  local key = kept(q, state, FOR_EVER)
  for _, id in ipairs(call('ZRANDMEMBER', key, 10 * PAGE)) do
    if not call('ZSCORE', q.p .. state, id) then call('ZREM', key, id) end
  end
end

local function tidy(q)
  active_of(q)
  forget_gone(q, 'completed')
  forget_gone(q, 'failed')
  forget_starts(q, WHOLE)
  for _, group in ipairs(call('SMEMBERS', q.ours .. 'queue:rated')) do
    forget_starts(q, group)
    if call('EXISTS', starts_of(q, group)) == 0 then call('SREM', q.ours .. 'queue:rated', group) end
  end
end

local names, from = {}, asked.from or { '', 1, 0, 0 }
local at_keys = from[1] == 0
if not at_keys then
  for name in pairs(known_queues()) do names[#names + 1] = name end
  table.sort(names)
end
for _, name in ipairs(names) do
  if name >= from[1] then
    local q = queue(name)
    for i, it in ipairs(tasks_of(q)) do
      local here = name == from[1]
      if not here or i >= from[2] then
        local again = here and i == from[2]
        local at, seen = beyond(q, it, again and from[3] or 0, again and from[4] or 0)
        if at then return { count, { name, i, at, seen }, wf_woken(ARGV[2], ARGV[3]) } end
      end
    end
    tidy(q)
  end
end

if not at_keys then find_keys(10 * PAGE) end
local upto, seen = look_at_keys(at_keys and from[2], at_keys and from[3] or 0, PAGE, 10 * PAGE)
if upto then return { count, { 0, upto, seen }, wf_woken(ARGV[2], ARGV[3]) } end

-- Where a BullMQ worker ended the job that they waited for, nobody has told them.
for _, key in ipairs(call('SRANDMEMBER', base .. 'parked', 100)) do unpark(key) end
for _ = 1, 10 do
  if wf_sweep_locks(base .. 'locks', base .. 'lock_owners', now) < 100 then break end
end
return { count, false, wf_woken(ARGV[2], ARGV[3]) }
