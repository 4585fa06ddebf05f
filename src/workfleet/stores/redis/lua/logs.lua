-- include: parts/job.lua
-- Reads a job's log lines. Asked: id.
local name = locate(asked.id)
return name and call('LRANGE', prefix .. name .. ':' .. asked.id .. ':logs', 0, -1) or {}
