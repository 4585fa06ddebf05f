-- include: parts/claiming.lua
-- due_of(names): when there may be something to claim from these queues without a wake; false where nobody knows.
local function due_of(names)
  local soonest
  local function note(at) soonest = soonest and math.min(soonest, at) or at end

  local function note_rates(q)
    local whole = free_ms(q, WHOLE)
    local function of(group)
      local own = free_ms(q, group)
      if whole and own and math.max(whole, own) > now then note(math.max(whole, own)) end
    end
    if has_ready(q, '') then of('') end
    for _, group in ipairs(call('ZRANGE', q.groups, 0, -1)) do of(group) end
  end

  for _, name in ipairs(names) do
    local q = queue(name)
    if not q.paused then
      local first = call('ZRANGE', q.delayed, 0, 0, 'WITHSCORES')
      if first[2] and tonumber(first[2]) < FAR then note(math.floor(tonumber(first[2]) / 4096)) end
      ripen(q)
      note_rates(q)
    end
  end
  return soonest or false
end
