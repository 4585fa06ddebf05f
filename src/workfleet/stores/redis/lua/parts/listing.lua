-- include: parts/claiming.lua
-- The jobs of a queue, page by page, so that no call looks at many: a caller goes on where the last one ended.

-- Where jobs are: the key, and the state of most there. Active ones come twice: one that goes back while the others are
-- read is not missed.
local PLACES = {
  { 'active', 'active' }, { 'wait', 'waiting' }, { 'paused', 'waiting' }, { 'prioritized', 'prioritized' }, { 'delayed', 'delayed' },
  { 'active', 'active' }, { 'waiting-children', 'waiting-children' }, { 'completed', 'completed' },
  { 'failed', 'failed' },
}

local function set_of(list)
  if not list then return nil end
  local set = {}
  for _, value in ipairs(list) do set[value] = true end
  return set
end

local function reversed(list)
  local turned = {}
  for i = #list, 1, -1 do turned[#turned + 1] = list[i] end
  return turned
end

-- Ready jobs of groups are in `delayed` as well, beyond all others.
local function is_wanted(q, place, states)
  if not states or states[place[2]] then return true end
  return place[1] == 'delayed' and (states.waiting or states.prioritized) and call('EXISTS', q.groups) == 1
end

-- The state of a job in `delayed` that waits for something else than its time; the second value as of `state_of`.
local function held_back(q, id)
  local job = load(q, id)
  if not job or job.group == '' or job.wf.parked then return 'delayed', false end
  return job.priority > 0 and 'prioritized' or 'waiting', true
end

-- So many entries of a place from one on: from its newer end; or where `oldest`, from the end that is served. Returns
-- {id, state, grouped} of each that is wanted, and how many were looked at.
local function page(q, place, states, at, most, oldest)
  local key, found = q.p .. place[1], {}
  if place[2] == 'waiting' or place[2] == 'active' then
    local ids
    if oldest then ids = reversed(call('LRANGE', key, -(at + most), -(at + 1)))
    else ids = call('LRANGE', key, at, at + most - 1) end
    for i, id in ipairs(ids) do found[i] = { id, place[2], false } end
    return found, #ids
  end
  local all_wanted = not states or states[place[2]]
  local entries
  if oldest then
    local first = all_wanted and 0 or call('ZCOUNT', key, '-inf', '(' .. string.format('%.0f', FAR))
    entries = call('ZRANGE', key, first + at, first + at + most - 1, 'WITHSCORES')
  else
    entries = call('ZREVRANGE', key, at, at + most - 1, 'WITHSCORES')
  end
  for i = 1, #entries, 2 do
    local id, state, grouped = entries[i], place[2], false
    if place[1] == 'delayed' and tonumber(entries[i + 1]) == FAR then state, grouped = held_back(q, id)
    elseif not all_wanted then return found, 0 end
    if not states or states[state] then found[#found + 1] = { id, state, grouped } end
  end
  return found, #entries / 2
end
