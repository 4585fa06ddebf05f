-- include: parts/listing.lua
-- Lists a page of jobs. Asked: queue (or nothing), states (or nothing), since (creation, or nothing): who is older is left
-- out, most: how many to look at, from: where the last page ended (or nothing). Returns queue, id, creation of each, in
-- one flat list; and where it ended, nothing at the end.
-- A job that moves meanwhile may be listed twice.
local OVERLAP = 10 -- what was taken away meanwhile moves the rest up
local found, states, left = {}, set_of(asked.states), asked.most
local from = asked.from or { '', 1, 0 }
local since = asked.since or -math.huge

local names = { asked.queue }
if not asked.queue then
  for name in pairs(known_queues()) do names[#names + 1] = name end
  table.sort(names)
end

for _, name in ipairs(names) do
  local q = name >= from[1] and queue(name)
  for p = q and name == from[1] and from[2] or 1, q and #PLACES or 0 do
    local at = name == from[1] and p == from[2] and from[3] or 0
    if left <= 0 then return { found, { name, p, at } } end
    left = left - 1
    if is_wanted(q, PLACES[p], states) then
      local most = math.max(left, 5 * OVERLAP)
      local entries, looked = page(q, PLACES[p], states, at, most)
      for _, entry in ipairs(entries) do
        local n, created = #found, whole(fields_of(q.p .. entry[1], 'timestamp')[1]) or 0
        if created >= since then found[n + 1], found[n + 2], found[n + 3] = name, entry[1], created end
      end
      left = left - looked
      if looked == most then return { found, { name, p, at + looked - OVERLAP } } end
    end
  end
end
return { found, false }
