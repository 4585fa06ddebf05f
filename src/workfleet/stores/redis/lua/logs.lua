-- include: parts/job.lua
-- Reads a job's log lines. Asked: id, queue (or nothing).
local name = locate(asked.id, asked.queue)
return name and call('LRANGE', prefix .. name .. ':' .. asked.id .. ':logs', 0, -1) or {}
