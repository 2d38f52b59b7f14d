"""The Lua scripts for Redis, each with its purpose. A script runs as one atomic step. Each begins
with the functions of PARTS."""

# map: log      stream   seq-0 -> hash, header, keeps, mac
#      bodies   hash     seq -> salt and body
#      turn     string   the node that has the turn; expires
#      queue    list     the nodes that wait for it, in order
#      bell:N   list     tells N that it has the turn, and where the log ends
#      uploads  set      names of uploads, sorted; chunks:UPLOAD is a hash of number -> bytes
#      blobs    hash     digest -> upload; kept: the set of those uploads
#      aside    stream   entries of the log without a valid seal
#      nodes    hash     name -> its report; seen: the times of the reports, sorted

# Functions that several scripts share.
PARTS = """
local function last(log)
  local found = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  if not found then return '0-0', '' end
  for at = 1, #found[2], 2 do
    if found[2][at] == 'hash' then return found[1], found[2][at + 1] end
  end
  return found[1], ''
end
-- A stream rejects every id that is not above its highest id so far. If a high id was added and
-- removed, copy the entries into a new stream, and replace the old one when the copy is complete.
local function renewed(log)
  local new, from = log .. ':new', '-'
  redis.call('DEL', new)
  repeat
    local found = redis.call('XRANGE', log, from, '+', 'COUNT', 500)
    for _, entry in ipairs(found) do
      redis.call('XADD', new, entry[1], unpack(entry[2]))
      from = '(' .. entry[1]
    end
  until #found == 0
  if from == '-' then redis.call('DEL', log) else redis.call('RENAME', new, log) end
end
-- Return the message of an error, or nil.
local function trouble(answer)
  return type(answer) == 'table' and answer.err
end
local function add(log, entry)
  local why = trouble(redis.pcall('XADD', log, unpack(entry)))
  if why and string.find(why, 'equal or smaller', 1, true) then
    local good, met = pcall(renewed, log)
    if not good then return type(met) == 'table' and met.err or tostring(met) end
    why = trouble(redis.pcall('XADD', log, unpack(entry)))
  end
  return why
end
local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function hand_over(log, turn, queue, bell, slot)
  local first = redis.call('LPOP', queue)
  if first then
    local id, hash = last(log)
    redis.call('SET', turn, first, 'PX', slot)
    redis.call('DEL', bell .. first)
    redis.call('RPUSH', bell .. first, id .. ' ' .. hash)
    redis.call('PEXPIRE', bell .. first, slot)
  end
end
-- Hand the turn to the next node in the queue, after a write. Its errors must not fail the write.
local function end_turn(log, turn, queue, bell, me, slot)
  redis.pcall('LREM', queue, 0, me)
  if redis.pcall('GET', turn) == me then
    redis.pcall('DEL', turn)
    pcall(hand_over, log, turn, queue, bell, slot)
  end
end
"""

# Take the turn, or queue for it.
BEGIN = """
local log, turn, queue, bell = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local me, slot, ours = ARGV[1], ARGV[2], ARGV[3]
local holder = redis.call('GET', turn)
local id, hash = last(log)
if not holder then
  local first = redis.call('LINDEX', queue, 0)
  if not first and id == ours then return {1, milliseconds(), id, hash} end
  if first and first ~= me then
    hand_over(log, turn, queue, bell, slot)
    holder = first
  end
end
if holder and holder ~= me then
  if not redis.call('LPOS', queue, me) then redis.call('RPUSH', queue, me) end
  if redis.call('PTTL', turn) < 0 then redis.call('PEXPIRE', turn, slot) end
  return {0, milliseconds(), redis.call('PTTL', turn)}
end
redis.call('SET', turn, me, 'PX', slot)
redis.call('LREM', queue, 0, me)
redis.call('DEL', bell .. me)
return {1, milliseconds(), id, hash}
"""

# Read the last entry and the clock.
REMOTE_HEAD = """
local id, hash = last(KEYS[1])
return {milliseconds(), id, hash}
"""

# Renew the turn.
STAY = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
"""

# Write a chunk of an upload, unless the upload is a blob by now.
PUT_CHUNK = """
local kept, uploads, chunks, upload = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
if redis.call('SISMEMBER', kept, upload) == 1 then return end
redis.call('ZADD', uploads, 0, upload)
redis.call('HSET', chunks .. upload, ARGV[2], ARGV[3])
"""

# Delete an upload, unless it is a blob by now.
DROP_UPLOAD = """
local kept, uploads, chunks, upload = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
redis.call('ZREM', uploads, upload)
if redis.call('SISMEMBER', kept, upload) == 0 then redis.call('DEL', chunks .. upload) end
"""

# End the turn, and return whether the log still ends at a position.
LEAVE = """
local log, turn, queue, bell = unpack(KEYS)
redis.call('LREM', queue, 0, ARGV[1])
if redis.call('GET', turn) == ARGV[1] then
  redis.call('DEL', turn)
  hand_over(log, turn, queue, bell, ARGV[2])
end
local id, hash = last(log)
return id == ARGV[3] and (hash == ARGV[4] or id == '0-0')
"""

# Append a batch if the head has not moved, and end the turn. Redis does not roll a script back
# after an error. So the steps before the entries delete nothing, and the steps after them must not
# fail.
APPEND = """
local log, turn, queue, bell, bodies, blobs, uploads, chunks, kept = unpack(KEYS)
local at = 0
local function next()
  at = at + 1
  return ARGV[at]
end
local me, slot, after, hash = next(), next(), next(), next()
local id, found = last(log)
local good = id == after and (found == hash or id == '0-0')
if good then
  local entries, joined = {}, {}
  for number = 1, tonumber(next()) do
    local seq, hash, mac, keeps = string.match(next(), '^(%S+) (%S+) (%S+) (.*)$')
    entries[number] = {seq .. '-0', 'hash', hash, 'header', next(), 'keeps', keeps, 'mac', mac}
    local body = next()
    if body ~= '' then redis.call('HSET', bodies, seq, body) end
  end
  for number = 1, tonumber(next()) do
    local sha256, upload = next(), next()
    local first = redis.call('HGET', blobs, sha256) or upload
    if first == upload then
      redis.call('SADD', kept, upload)
      redis.call('HSET', blobs, sha256, upload)
    end
    joined[number] = {upload, first}
  end
  for number, entry in ipairs(entries) do
    local why = add(log, entry)
    if why then
      for earlier = 1, number - 1 do redis.pcall('XDEL', log, entries[earlier][1]) end
      return redis.error_reply(why)
    end
  end
  for _, pair in ipairs(joined) do
    if pair[1] ~= pair[2] then redis.pcall('DEL', chunks .. pair[1]) end
    redis.pcall('ZREM', uploads, pair[1])
  end
  for _ = 1, tonumber(next()) do redis.pcall('HDEL', bodies, next()) end
  for _ = 1, tonumber(next()) do
    local sha256 = next()
    local upload = redis.pcall('HGET', blobs, sha256)
    if type(upload) == 'string' then
      redis.pcall('DEL', chunks .. upload)
      redis.pcall('SREM', kept, upload)
    end
    redis.pcall('HDEL', blobs, sha256)
  end
end
end_turn(log, turn, queue, bell, me, slot)
return good and 1 or 0
"""

# Restore entries at their positions, and set other entries there aside. A stream accepts no entry
# in its middle. So the script makes a new stream, and replaces the old one when the new one is
# complete.
REWRITE = """
local log, turn, queue, bell, bodies, aside = unpack(KEYS)
local me, slot, after, hash = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local id, found = last(log)
if id ~= after or found ~= hash then return 0 end
local new, entries, displaced = log .. ':new', {}, {}
for at = 5, #ARGV, 3 do
  local seq, hash, mac, keeps = string.match(ARGV[at], '^(%S+) (%S+) (%S+) (.*)$')
  local fields = {'hash', hash, 'header', ARGV[at + 1], 'keeps', keeps, 'mac', mac}
  entries[#entries + 1] = {seq = tonumber(seq), id = seq .. '-0', fields = fields}
  if ARGV[at + 2] ~= '' then redis.call('HSET', bodies, seq, ARGV[at + 2]) end
end
local function make()
  local place, from = 1, '-'
  local function add_up_to(seq)
    while entries[place] and entries[place].seq <= seq do
      redis.call('XADD', new, entries[place].id, unpack(entries[place].fields))
      place = place + 1
    end
  end
  redis.call('DEL', new)
  repeat
    local found = redis.call('XRANGE', log, from, '+', 'COUNT', 500)
    for _, entry in ipairs(found) do
      local seq, part = string.match(entry[1], '^(%d+)%-(%d+)$')
      local before = place
      add_up_to(tonumber(seq))
      local mended = place > before and entries[place - 1].id == seq .. '-0'
      if part ~= '0' or mended then
        local same = mended and
          table.concat(entry[2], '\\0') == table.concat(entries[place - 1].fields, '\\0')
        if not same then displaced[#displaced + 1] = entry end
      else
        redis.call('XADD', new, entry[1], unpack(entry[2]))
      end
      from = '(' .. entry[1]
    end
  until #found == 0
  add_up_to(math.huge)
end
local good, met = pcall(make)
if not good then
  redis.pcall('DEL', new)
  return redis.error_reply(type(met) == 'table' and met.err or tostring(met))
end
for _, entry in ipairs(displaced) do
  local fields = {}
  for at = 1, #entry[2], 2 do fields[entry[2][at]] = entry[2][at + 1] end
  redis.pcall('XADD', aside, '*', 'id', entry[1], 'header', fields.header or '', 'mac',
    fields.mac or '')
end
redis.call('RENAME', new, log)
end_turn(log, turn, queue, bell, me, slot)
return 1
"""

# Read entries without their bodies.
HEADERS = "return redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])"

# Delete the entries that were set aside.
DISCARD = """
local count = redis.call('XLEN', KEYS[1])
redis.call('DEL', KEYS[1])
return count
"""

# Read entries with their bodies, up to and including the one that exceeds the limit of bytes.
READ = """
local found, left = {}, tonumber(ARGV[3])
for at, entry in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])) do
  local body = redis.call('HGET', KEYS[2], string.match(entry[1], '^%d+'))
  found[at] = {entry[1], entry[2], body}
  left = left - (body and #body or 0)
  if left <= 0 then break end
end
return found
"""

# Move exactly this entry aside.
SET_ASIDE = """
local log, aside, id = KEYS[1], KEYS[2], ARGV[1]
local found = redis.call('XRANGE', log, id, id)[1]
if not found then return 0 end
local fields = {}
for at = 1, #found[2], 2 do fields[found[2][at]] = found[2][at + 1] end
if (fields.header or '') ~= ARGV[2] or (fields.mac or '') ~= ARGV[3] then return 0 end
redis.call('XADD', aside, '*', 'id', id, 'header', ARGV[2], 'mac', ARGV[3])
redis.call('XDEL', log, id)
return 1
"""

# Write the report of a node, delete old ones, and read all.
BEAT = """
local nodes, seen, me = KEYS[1], KEYS[2], ARGV[1]
local now = milliseconds()
for _, name in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', now - ARGV[3])) do
  redis.call('HDEL', nodes, name)
  redis.call('ZREM', seen, name)
end
redis.call('HSET', nodes, me, ARGV[2])
redis.call('ZADD', seen, now, me)
return redis.call('HGETALL', nodes)
"""
