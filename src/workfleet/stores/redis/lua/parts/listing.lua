-- include: parts/claiming.lua
-- Every job of a queue in some states.

local SETS = {
  prioritized = 'prioritized', completed = 'completed', failed = 'failed', ['waiting-children'] = 'waiting-children',
}

-- Calls `each(id, state, grouped)` for every job of a queue in one of the states (a set), or in any.
local function every(q, states, each)
  local function wanted(state) return not states or states[state] end
  if wanted('waiting') then
    for _, id in ipairs(call('LRANGE', q.wait, 0, -1)) do each(id, 'waiting') end
  end
  if wanted('active') then
    for _, id in ipairs(call('LRANGE', q.active, 0, -1)) do each(id, 'active') end
  end
  for state, suffix in pairs(SETS) do
    if wanted(state) then
      for _, id in ipairs(call('ZRANGE', q.p .. suffix, 0, -1)) do each(id, state) end
    end
  end
  local grouped = {}
  for _, group in ipairs(call('ZRANGE', q.groups, 0, -1)) do
    for _, member in ipairs(call('ZRANGE', group_ready(q, group), 0, -1)) do
      local kind = string.sub(member, 1, 1)
      local id = string.sub(member, kind == '0' and 34 or 41)
      local state = (kind == '0' or string.sub(member, 2, 8) == '0000000') and 'waiting' or 'prioritized'
      grouped[id] = true
      if wanted(state) then each(id, state, true) end
    end
  end
  if wanted('delayed') then
    for _, id in ipairs(call('ZRANGE', q.delayed, 0, -1)) do
      if not grouped[id] then each(id, 'delayed') end
    end
  end
end

local function set_of(list)
  if not list then return nil end
  local set = {}
  for _, value in ipairs(list) do set[value] = true end
  return set
end
