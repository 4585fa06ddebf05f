-- include: parts/job.lua
-- Reads jobs. Asked: jobs ({queue or "", id} each). Returns a row or nothing for each.
local rows = {}
for i, at in ipairs(asked.jobs) do
  local name = locate(at[2], at[1])
  rows[i] = name and row(queue(name), at[2]) or false
end
return rows
