-- include: parts/job.lua
-- What became of a job's children. Asked: id, queue (or nothing). Returns child keys and results, child keys and reasons of failures, flat.
local name = locate(asked.id, asked.queue)
if not name then return { {}, {} } end
local key = prefix .. name .. ':' .. asked.id
return { call('HGETALL', key .. ':processed'), call('HGETALL', key .. ':failed') }
