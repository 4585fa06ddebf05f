-- Schedules. KEYS 1 set of their names  2 what every schedule's hash begins with, before its name and ":s"
-- 3 their revision: how often definitions were changed so far  4 the live ones, scored by when they are handed out: at
-- their next slot, or later while they are held
-- A hash: definition (JSON), fingerprint, enabled, from_code, orphaned, paused (0 or 1), fired, skipped, missed; absent
-- where there is none: next_due_ms, last_slot_ms, last_fired_ms, last_job_id, last_outcome, coalesced, late, notes (JSON);
-- and of the last fire, for its repeats: call, call_slot, call_kind, call_running.
-- wf_schedule_set(name, definition, fingerprint, enabled, from_code, next_due, held): stores a definition. What the fleet
-- did under that name so far stays.
-- wf_schedule_line(name, held): puts it into its place in KEYS 4, until `held` (ms, or empty) at the earliest.
-- wf_schedules_changed(): a definition was changed: raises the revision, and wakes.
-- wf_schedule(name): name, flat hash, and score in KEYS 4 (or empty).
local function wf_schedules_changed()
  redis.call('INCR', KEYS[3])
  wf_wake('schedules')
end
local function wf_schedule_line(name, held)
  local there = redis.call('HMGET', KEYS[2] .. name .. ':s', 'next_due_ms', 'enabled', 'paused', 'orphaned')
  local at = there[1]
  if not at or there[2] ~= '1' or there[3] == '1' or there[4] == '1' then
    redis.call('ZREM', KEYS[4], name)
    return
  end
  if held ~= '' and tonumber(held) > tonumber(at) then at = held end
  redis.call('ZADD', KEYS[4], at, name)
end
local function wf_schedule_set(name, definition, fingerprint, enabled, from_code, next_due, held)
  local key = KEYS[2] .. name .. ':s'
  if redis.call('SADD', KEYS[1], name) == 1 then
    redis.call('HSET', key, 'paused', 0, 'fired', 0, 'skipped', 0, 'missed', 0)
  end
  redis.call('HSET', key, 'definition', definition, 'fingerprint', fingerprint, 'enabled', enabled,
    'from_code', from_code, 'orphaned', 0)
  if next_due == '' then
    redis.call('HDEL', key, 'next_due_ms')
  else
    redis.call('HSET', key, 'next_due_ms', next_due)
  end
  wf_schedule_line(name, held)
  wf_schedules_changed()
end
local function wf_schedule(name)
  return { name, redis.call('HGETALL', KEYS[2] .. name .. ':s'), redis.call('ZSCORE', KEYS[4], name) or '' }
end
