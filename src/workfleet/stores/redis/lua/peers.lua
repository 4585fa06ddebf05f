-- include: parts/names.lua
-- include: parts/paused.lua
-- Who else uses the queues, as far as their keys say. Returns for each: name, version, 1 where that is a v5, 1 where it is
-- paused, how many jobs are where v5 keeps those of a paused queue (nothing where there is no such list), how many groups
-- have ready jobs.
local rows = {}
for name in pairs(known_queues()) do
  local q = queue(name)
  local kept = call('LLEN', paused_list(q))
  rows[#rows + 1] = { name, q.version, is_old(q.version) and 1 or 0, q.paused and 1 or 0, kept > 0 and kept or false,
    call('ZCARD', q.groups) }
end
return rows
