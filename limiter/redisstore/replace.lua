-- Replaces a value if no other process has changed it since it was read.
--
-- KEYS[1]  key of the subject
-- KEYS[2]  key of the settlement IDs, as in settle.lua; only for a settlement with an ID
-- ARGV[1]  the value that was read; empty if there was none
-- ARGV[2]  the new value
-- ARGV[3]  time to live of KEYS[1] in ms
-- ARGV[4]  the ID; this and the following arguments only with KEYS[2]
-- ARGV[5]  size of a full KEYS[2]
-- ARGV[6]  time to live of KEYS[2] in ms
--
-- Returns 1 if it replaced the value. Otherwise it changes nothing and returns
--   the present value in an array, if another process changed it
--   -1 if KEYS[2] has the ID, -2 if KEYS[2] is full
local ids
if KEYS[2] then
  ids = redis.call('GET', KEYS[2]) or ''
  for i = 1, #ids, 8 do
    if string.sub(ids, i, i + 7) == ARGV[4] then return -1 end
  end
  if #ids >= tonumber(ARGV[5]) then return -2 end
end
local value = redis.call('GET', KEYS[1])
if (value or '') ~= ARGV[1] then return {value} end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if ids then redis.call('SET', KEYS[2], ids .. ARGV[4], 'PX', ARGV[6]) end
return 1
