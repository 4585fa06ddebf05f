-- include: parts/due.lua
-- When there may be something to claim without a wake. Asked: queues. Returns the instant, or nothing.
return due_of(asked.queues)
