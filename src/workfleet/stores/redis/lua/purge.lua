-- include: parts/listing.lua
-- include: parts/scheduler.lua
-- Deletes jobs of a queue in some states; not the next one of a BullMQ job scheduler. In the order of enqueueing where
-- there are no more than `most`; else place by place, in that order within what is looked at at once.
-- Asked: queue, states, limit, most: how many to look at, from: where the last call ended (or nothing).
-- Returns how many, and where it ended: nothing at the end; and the topics that woke.
local q, states = queue(asked.queue), set_of(asked.states)
states.active = nil
local count, left = 0, asked.most

-- Deletes the first of these, returns how many.
local function purge(entries)
  local doomed = {}
  for _, entry in ipairs(entries) do
    local job = load(q, entry[1])
    if job and not awaited_by(q, entry[1]) then doomed[#doomed + 1] = { id = entry[1], n = job.wf.n or 0 } end
  end
  table.sort(doomed, function(one, other) return one.n < other.n end)
  local before = count
  for i = 1, math.min(#doomed, asked.limit - count) do
    -- One that is gone may have unparked another.
    local job = load(q, doomed[i].id)
    if job then
      local state, grouped = state_of(job)
      if state ~= 'active' then
        discard(job, state, grouped, 'purged')
        count = count + 1
      end
    end
  end
  return count - before
end

local function size(place)
  local key = q.p .. place[1]
  return place[2] == 'waiting' and call('LLEN', key) or call('ZCARD', key)
end

local places, all = {}, 0
for p, place in ipairs(PLACES) do
  if place[2] ~= 'active' and is_wanted(q, place, states) then
    places[#places + 1] = p
    all = all + size(place)
  end
end

if not asked.from and all <= left then
  local entries = {}
  for _, p in ipairs(places) do
    for _, entry in ipairs((page(q, PLACES[p], states, 0, left, true))) do entries[#entries + 1] = entry end
  end
  purge(entries)
  return { count, false, wf_woken(ARGV[2], ARGV[3]) }
end

local from = asked.from or { 1, 0 }
for _, p in ipairs(places) do
  local at = p == from[1] and from[2] or 0
  while p >= from[1] do
    if left <= 0 or count >= asked.limit then return { count, { p, at }, wf_woken(ARGV[2], ARGV[3]) } end
    local most = left
    local entries, looked = page(q, PLACES[p], states, at, most, true)
    at = at + looked - purge(entries)
    left = left - looked
    if looked < most then break end
  end
end
return { count, false, wf_woken(ARGV[2], ARGV[3]) }
