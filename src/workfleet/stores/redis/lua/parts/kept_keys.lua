-- include: parts/unique.lua
-- What is kept of unique keys whose jobs other programs have ended or deleted.

-- Forgets some jobs of a key that are no more, and the key where it has no others. Returns whether all was as it should be.
local FEW = 10
local function is_kept(key)
  local all, gone = base .. 'key:' .. key .. ':v', 0
  local some = call('HRANDFIELD', all, FEW, 'WITHVALUES')
  for i = 1, #some, 2 do
    local job = load(queue(some[i + 1]), some[i])
    if not job or job.finished then gone = gone + call('HDEL', all, some[i]) end
  end
  if call('EXISTS', all) == 0 then forget_key(key) end
  return gone == 0 and #some > 0
end

-- Looks at a page of the keys, first at those that were not looked at for longest, until `most` were as they should be.
-- `upto`: the last that was there at the beginning, `seen`: how many were as they should be. Returns both where there is
-- more to look at.
local function look_at_keys(upto, seen, page, most)
  upto = upto or tonumber(call('GET', base .. 'number') or 0)
  local keys = call('ZRANGEBYSCORE', kept_of, '-inf', upto, 'LIMIT', 0, page)
  if #keys == 0 then return nil end
  local last = call('INCR', base .. 'number')
  for _, key in ipairs(keys) do
    if is_kept(key) then
      seen = seen + 1
      call('ZADD', kept_of, 'XX', last, key)
    end
  end
  if #keys == page and seen < most then return upto, seen end
end

-- Keys of releases that had no `unique`: found once, a part of the server in a call.
local function find_keys(page)
  local from = call('GET', base .. 'unique_from') or '0'
  if from == 'all' then return end
  local pattern = string.gsub(base, '[%[%]%*%?%^\\]', '\\%0') .. '*:v'
  local found = redis.pcall('SCAN', from, 'MATCH', pattern, 'COUNT', page)
  if found.err then return end -- no right to it
  for _, name in ipairs(found[2]) do
    local rest = string.sub(name, #base + 1)
    local key = string.match(rest, '^hold:(.*):v$') or string.match(rest, '^key:(.*):v$')
    if key then call('ZADD', kept_of, 'NX', 0, key) end
  end
  call('SET', base .. 'unique_from', found[1] == '0' and 'all' or found[1])
end
