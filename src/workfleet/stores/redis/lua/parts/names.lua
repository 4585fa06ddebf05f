-- include: parts/now.lua
-- include: parts/wake.lua
-- What every script about jobs begins with.
-- KEYS 1: the app's queues, a hash: name -> 0 something was said of it, 1 had only housekeeping jobs, 2 had others.
-- ARGV 1: the time, 2: the channel of wakes, 3: the sender, 4: the prefix, 5: what our own keys of the app begin with,
--      6: what is asked, as MessagePack.
-- Keys of the app, all beginning with ARGV 5:
--   number         the last number given to a job, in the order of enqueueing
--   hold:<key>:v   who holds a unique key: "<until, 0 without a window> <queue>\n<id>"
--   key:<key>:v    the unfinished jobs with that unique key, a hash: id -> queue
--   unique         the unique keys of these two, a sorted set by when `prune` has looked at them, as numbers of jobs
--   unique_from    how far `prune` has looked for those of releases without `unique`, "all" in the end
--   parked         unique keys behind which jobs may be parked
--   replaced       newcomers whose payload a job took, a hash: id -> "<queue>\n<id>"
--   call:<id>:v    what a call did, for its repeat; expires
--   erased:<token>:<queue>:v   the jobs that were settled under a token and not kept, a set; expires
local call = redis.call
local now = wf_now(ARGV[1])
local now_text = string.format('%d', now) -- a number costs more on its way to a command
local prefix, base = ARGV[4] .. ':', ARGV[5]
local asked = cmsgpack.unpack(ARGV[6])
local FAR = 2 ^ 53 - 1 -- the score in `delayed` of what waits for something else than its time
local NOTE_MS = 3600000 -- how long calls are remembered
local KNOWN_MS = 300000 -- how long it is, of what there is one for each few jobs
local SLACK_MS = ARGV[1] == '' and 0 or NOTE_MS -- keys expire by the server's time, which a test's clock is not

local queues = {}
-- A queue: the names of its keys, and what its `meta` says. Keys of ours: P:wf:queue:… and P:wf:group:<group>:….
--   queue:claims   our claims, a hash: id -> "<lease end>\n<token>\n<holder>\n<group>\n<processedOn>"
--   queue:groups   groups with ready jobs, a sorted set by name; group:<group>:ready  these jobs, a sorted set by place
--   queue:turn     which group is served, a hash: served, jobs
--   queue:limits   the limits of groups, JSON; those of the queue are in `meta`, as BullMQ's
--   queue:said     which of those in `meta` are ours, a hash like it
--   queue:starts, group:<group>:starts   when jobs started, where a rate asks; queue:rated  the groups that have one
--   queue:house    the housekeeping jobs; queue:again  delayed jobs that ran before
--   queue:kept     classes of finished jobs with a rule of their own: "<state>\n<class>"; kept:<class>:ids  these jobs
-- `p`: of another prefix; then its name is its whole key.
local function queue(name, p)
  local q = queues[name]
  if q then return q end
  p = p or prefix .. name .. ':'
  local meta = call('HMGET', p .. 'meta', 'paused', 'concurrency', 'max', 'duration', 'opts.maxLenEvents', 'version')
  if not meta[5] then meta[5] = 10000 end
  q = {
    name = name, p = p, ours = p .. 'wf:', wait = p .. 'wait', active = p .. 'active', delayed = p .. 'delayed',
    prioritized = p .. 'prioritized', events = p .. 'events', meta = p .. 'meta', marker = p .. 'marker',
    claims = p .. 'wf:queue:claims', groups = p .. 'wf:queue:groups', again = p .. 'wf:queue:again',
    paused = meta[1], concurrency = tonumber(meta[2]), max = tonumber(meta[3]), duration = tonumber(meta[4]),
    max_events = meta[5], version = meta[6],
  }
  queues[name] = q
  return q
end

-- Every queue of the app, by name, with the flag that KEYS 1 has for it.
local flags
local function known_queues()
  if not flags then
    flags = {}
    local all = call('HGETALL', KEYS[1])
    for i = 1, #all, 2 do flags[all[i]] = tonumber(all[i + 1]) end
  end
  return flags
end
local function know(name, flag)
  local known = known_queues()[name]
  if not known or known < flag then
    call('HSET', KEYS[1], name, flag)
    if flag > 0 and (known or 0) == 0 then call('HSETNX', prefix .. name .. ':meta', 'version', 'bullmq:6.7.0') end
    flags[name] = flag
  end
end

-- An entry in the queue's event stream: event, jobId, then more fields.
local function event(q, what, id, ...)
  call('XADD', q.events, 'MAXLEN', '~', q.max_events, '*', 'event', what, 'jobId', id, ...)
end
