-- Corrects charges of a subject: refunds some, each as far as this is safe, and forces others. value.lua describes the
-- value.
--
-- KEYS[1]  key of the subject
-- ARGV[1]  the time to live in ms (I6), then the charges. A charge has
--            seven I4, for a refund
--              bucket: TAT after the charge (2 I4); refunds after the charge; what to refund if the bucket
--                is unchanged since (2 I4); what to refund otherwise (2 I4)
--              window: index charged, cost, high half of the cost
--              log: newest instant after the charge (2 I4), cost
--              slots: entry of the last slot that the charge took (2 I4), cost
--            seven I4, for a forced charge
--              bucket: now (2 I4); increment (2 I4); latest TAT of a debt (2 I4)
--              window: index, cost; latest index of honest clocks; largest count of a debt; high halves of the
--                cost and of that count
--            B: 1 for a forced charge, 0 for a refund
--            B: kind of the state
--            B length of the parameters, I5 id, the parameters
--
-- Returns B: 1 plus the number of refunds that returned something. If it cannot make a forced charge, it changes nothing
-- and returns B 0 and the value. The caller makes these rare charges: they exceed the largest debt, or the value has no
-- such limit.
local args = ARGV[1]
if not value or byte(value) ~= 4 then return '\0' .. (value or '') end
local new, given, forced, i = value, 0, 0, 7

while i <= #args do
  local a, b, c, d, e, f, g, force, kind, length = unpack('>I4I4I4I4I4I4I4BBB', args, i)
  local limit = sub(args, i + 30, i + 35 + length)
  i, forced = i + 30 + #limit, forced + force
  local at = find(new, sub(limit, 2, 6))
  if not at then return '\0' .. (value or '') end
  if at > 0 then
    local same = sub(new, at, at + #limit - 1) == limit or kind == 4 -- the parameters of slots can have changed
    at = at + byte(new, at) + 6
    local stored = byte(new, at)
    at = same and stored % 128 == kind and at + (stored > 127 and 23 or 7) or 0
  end
  if at == 0 or force == 1 and kind > 2 then -- the value has no such limit, or the limit is a log
    if force == 1 then return '\0' .. (value or '') end
  elseif kind == 1 then
    local s, n, m = unpack('>I4I4I4', new, at)
    if force == 1 then
      if s < a or s == a and n < b then s, n = a, b end
      s, n = s + c, n + d
      if n >= 4294967296 then s, n = s + 1, n - 4294967296 end
      if s > e or s == e and n > f then return '\0' .. (value or '') end
    else
      if s ~= a or n ~= b or m ~= c then d, e = f, g end
      if d + e > 0 then m, given = m + 1, given + 1 end
      s, n = s - d, n - e
      if n < 0 then s, n = s - 1, n + 4294967296 end
    end
    new = sub(new, 1, at - 1) .. pack('>I4I4I4', s, n, m) .. sub(new, at + 12)
  elseif kind == 2 then
    local s, n, m = unpack('>I4I7I7', new, at)
    if force == 1 then
      b, d = b + e * 4294967296, d + f * 4294967296
      if s > c then return '\0' .. (value or '') end
      if s < a then
        if s == a - 1 then m = n else m = 0 end
        s, n = a, 0
      end
      n = n + b
      if n > d then return '\0' .. (value or '') end
    else
      b = b + c * 4294967296
      if s == a and n >= b then
        n, given = n - b, given + 1
      elseif s == a + 1 and m >= b then
        m, given = m - b, given + 1
      end
    end
    new = sub(new, 1, at - 1) .. pack('>I4I7I7', s, n, m) .. sub(new, at + 18)
  else
    local m = unpack('>I4', new, at + 8)
    local first, last = at + 12, at + 12 + 8 * m
    local rest -- position after the entries to remove, which begin at first
    if kind == 4 then -- the charge took the entries up to the last one
      local function before(position) -- returns the time from an entry to the last entry of the charge
        local hi, lo = unpack('>I4I4', new, position)
        return (a - hi) * 4294967296 + b - lo
      end
      while first < last and before(first) >= c do first = first + 8 end
      rest = first
      while rest < last and before(rest) >= 0 do rest = rest + 8 end
    else
      local charged = pack('>I4I4', a, b)
      while first < last and sub(new, first, first + 7) ~= charged do first = first + 8 end
      rest = first
      while rest < last and rest < first + 8 * c and sub(new, rest, rest + 7) == charged do rest = rest + 8 end
      if rest < first + 8 * c then rest = first end
    end
    if rest > first then
      new = sub(new, 1, at + 7) .. pack('>I4', m - (rest - first) / 8) .. sub(new, at + 12, first - 1) .. sub(new, rest)
      given = given + 1
    end
  end
end

if given > 0 or forced > 0 then keep(new, forced > 0 and unpack('>I6', args) or -1) end
return string.char(1 + given)
