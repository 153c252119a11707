-- The value of a subject has one byte, the format 4, and the limits. Each limit has
--   B   length of the parameters
--   I5  id
--   the parameters, as text (algo.Machine.Fingerprint)
--   B   kind of the state, plus 128 if there is a skew
--   I6  version of the rules that set the parameters
--   16 bytes if there is a skew: mark of a state too far ahead of a clock
--   the state
--     1 bucket: TAT (2 I4), number of refunds I4
--     2 window: index I4, count I7, previous count I7
--     3 log: newest instant (2 I4), number of entries I4, entries (2 I4 each), oldest first
--     4 slots: entry of the slot taken last (2 I4), then like a log
--
-- Integers are big endian. Nanoseconds since 1970 do not fit the 53 bits of a double, so an instant is two halves of
-- 32 bits. The scripts change neither parameters nor versions nor skews.
local unpack, pack, sub, byte = struct.unpack, struct.pack, string.sub, string.byte
local value = redis.call('GET', KEYS[1])

-- find returns the position of the limit with an id in a value; 0 if the value does not have it, and nil if the value
-- has another format.
local function find(value, id)
  local at, found = 2, 0
  while at <= #value do
    if sub(value, at + 1, at + 5) == id then found = at end
    local state = at + byte(value, at) + 13
    local kind = byte(value, state - 7) or 0
    if kind > 127 then kind, state = kind - 128, state + 16 end
    if kind < 1 or kind > 4 or #value < state + 11 then return nil end
    at = state + (kind == 1 and 12 or kind == 2 and 18 or 12 + 8 * unpack('>I4', value, state + 8))
  end
  return at == #value + 1 and found or nil
end

-- keep sets the value. If the key lives long enough, keep does not change its expiry, which is the slowest part of a SET.
-- Otherwise the key then lives a quarter longer than it must, so that this is rare.
local function keep(new, ttl)
  if value and redis.call('PTTL', KEYS[1]) >= ttl then
    redis.call('SET', KEYS[1], new, 'KEEPTTL')
  else
    redis.call('SET', KEYS[1], new, 'PX', math.floor(ttl * 1.25))
  end
end
