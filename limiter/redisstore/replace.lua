-- Replaces a value if no other process has changed it since it was read.
--
-- KEYS[1]  key of the subject
-- KEYS[2]  key that exists if the settlement was made; only for a settlement with an ID
-- ARGV[1]  the value that was read; empty if there was none
-- ARGV[2]  the new value
-- ARGV[3]  time to live of KEYS[1] in ms
-- ARGV[4]  time to live of KEYS[2] in ms; only with KEYS[2]
--
-- Returns 1 if it replaced the value. Otherwise it changes nothing and returns
--   the present value in an array, if another process changed it
--   -1 if KEYS[2] exists
if KEYS[2] and redis.call('GET', KEYS[2]) then return -1 end
local value = redis.call('GET', KEYS[1])
if (value or '') ~= ARGV[1] then return {value} end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if KEYS[2] then redis.call('SET', KEYS[2], 1, 'PX', ARGV[4]) end
return 1
