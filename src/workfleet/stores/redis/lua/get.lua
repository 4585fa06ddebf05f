-- include: parts/job.lua
-- Reads jobs. Asked: jobs ({queue or "", id} each). Returns the rows of each: none, one, or of an id without a queue as
-- many as there are queues that have it.
local found = {}
for i, at in ipairs(asked.jobs) do
  local rows = {}
  for _, name in ipairs(places(at[2], at[1])) do rows[#rows + 1] = row(queue(name), at[2]) or nil end
  found[i] = rows
end
return found
