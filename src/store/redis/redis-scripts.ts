/**
 * The scripts that change entries. Each runs as a whole, in one slot.
 *
 * An entry is a hash: `k` is its cache key, `s` counts what was put under it, `f` is the highest fencing number that has written it, and
 * each generation has `h:` (its header: number of the put, whether it is complete, end of its pin or 0, number of blocks, digest of its
 * variant), `r:` (its record, which only `redis-records.ts` reads) and `t:` (digests of its tags).
 *
 * The index of a bucket is a sorted set without scores: `k` and a cache key; `t`, the digest of a tag and a cache key; and the mark `m`
 * where it is whole. The engine evicts whole keys, so an index that was evicted has no mark: it is then made again from the entries.
 */

/** Reads the generations of KEYS[1], the last put first. A header that cannot be read is dropped. */
const common = `
local E, X = KEYS[1], KEYS[2]
local function drop(name) redis.call('HDEL', E, 'h:' .. name, 'r:' .. name, 't:' .. name) end
local function generations()
  local found = {}
  for _, field in ipairs(redis.call('HKEYS', E)) do
    if string.sub(field, 1, 2) == 'h:' then
      local name = string.sub(field, 3)
      local header = redis.call('HGET', E, field)
      local seq, complete, pin, blocks, variant = string.match(header, '^(%d+) (%d) (%d+) (%d+) (%S+)$')
      if seq then
        found[#found + 1] = { name = name, seq = tonumber(seq), complete = complete, pin = tonumber(pin), blocks = blocks, variant = variant }
      else
        drop(name)
      end
    end
  end
  table.sort(found, function(a, b) return a.seq > b.seq end)
  return found
end
local function tags()
  local set = {}
  for _, field in ipairs(redis.call('HKEYS', E)) do
    if string.sub(field, 1, 2) == 't:' then
      for tag in string.gmatch(redis.call('HGET', E, field), '%S+') do set[tag] = true end
    end
  end
  return set
end
local function unindex(key, before)
  local after = tags()
  for tag in pairs(before) do
    if not after[tag] then redis.call('ZREM', X, 't' .. tag .. key) end
  end
  for _, field in ipairs(redis.call('HKEYS', E)) do
    if string.sub(field, 1, 2) == 'h:' then return end
  end
  redis.call('DEL', E)
  redis.call('ZREM', X, 'k' .. key)
end
local function index(key, ttl)
  redis.call('ZADD', X, 0, 'k' .. key)
  for tag in pairs(tags()) do redis.call('ZADD', X, 0, 't' .. tag .. key) end
  redis.call('PEXPIRE', E, ttl)
  redis.call('PEXPIRE', X, ttl * 2)
end
local function isFenced(fence)
  if fence == '' then return false end
  local lease = redis.call('GET', KEYS[3])
  local held = lease and tonumber(string.match(lease, '^(%d+)')) or 0
  local last = tonumber(redis.call('HGET', E, 'f') or 0)
  return math.max(held, last) > tonumber(fence)
end
`;

/**
 * Puts a generation in place of the current one of its variant. KEYS: entry, index, lease. ARGV: key, generation, digest of the variant,
 * number of blocks, whether it is complete, record, digests of tags, now, end of the pin of the replaced one or 0, most pins, time to
 * live, whether it was put before, fencing number or nothing. Returns nothing where it was put before and is not current any more, or
 * where another has a higher number; otherwise name and number of blocks of each generation that was removed.
 *
 * What an engine without memory refuses comes first, so that nothing is done by half.
 */
export const putScript = `${common}
local key, name, variant, now, pinUntil = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[8]), ARGV[9]
if isFenced(ARGV[13]) then return false end
local header = redis.call('HGET', E, 'h:' .. name)
if ARGV[12] == '1' and (not header or not string.match(header, '^%d+ %d 0 ')) then return false end
local known = redis.call('HGET', E, 'k')
if known and known ~= key then redis.call('DEL', E) end
local before = tags()
local seq = redis.call('HINCRBY', E, 's', 1)
redis.call('HSET', E, 'k', key, 'h:' .. name, seq .. ' ' .. ARGV[5] .. ' 0 ' .. ARGV[4] .. ' ' .. variant,
  'r:' .. name, ARGV[6], 't:' .. name, ARGV[7])
if ARGV[13] ~= '' then redis.call('HSET', E, 'f', ARGV[13]) end
local removed, pins = {}, 0
for _, each in ipairs(generations()) do
  if each.name ~= name then
    local isRival = each.variant == variant
    local isKept = each.pin == 0 or each.pin > now
    if isRival and each.pin == 0 then
      isKept = each.complete == '1' and tonumber(pinUntil) > now
      if isKept then
        redis.call('HSET', E, 'h:' .. each.name, each.seq .. ' 1 ' .. pinUntil .. ' ' .. each.blocks .. ' ' .. each.variant)
      end
    end
    if isRival and isKept then
      pins = pins + 1
      isKept = pins <= tonumber(ARGV[10])
    end
    if not isKept then
      drop(each.name)
      removed[#removed + 1] = each.name
      removed[#removed + 1] = each.blocks
    end
  end
end
index(key, tonumber(ARGV[11]))
unindex(key, before)
return removed
`;

/**
 * Replaces the record of a current generation. KEYS: entry, index, lease. ARGV: key, generation, record, digests of tags, time to live,
 * fencing number or nothing. Returns the header where it did.
 */
export const replaceScript = `${common}
local header = redis.call('HGET', E, 'h:' .. ARGV[2])
if not header or not string.match(header, '^%d+ %d 0 ') or isFenced(ARGV[6]) then return false end
local before = tags()
redis.call('HSET', E, 'r:' .. ARGV[2], ARGV[3], 't:' .. ARGV[2], ARGV[4])
index(ARGV[1], tonumber(ARGV[5]))
unindex(ARGV[1], before)
return header
`;

/**
 * Removes generations, all where none is named. KEYS: entry, index. ARGV: key, now, generations. Returns how many could be found, then
 * name and number of blocks of each that was removed.
 */
export const removeScript = `${common}
if redis.call('HGET', E, 'k') ~= ARGV[1] then
  redis.call('ZREM', X, 'k' .. ARGV[1])
  return { 0 }
end
local before, wanted, found = tags(), {}, 0
for at = 3, #ARGV do wanted[ARGV[at]] = true end
local removed = { 0 }
for _, each in ipairs(generations()) do
  if #ARGV == 2 or wanted[each.name] then
    if each.pin == 0 or each.pin > tonumber(ARGV[2]) then found = found + 1 end
    drop(each.name)
    removed[#removed + 1] = each.name
    removed[#removed + 1] = each.blocks
  end
end
removed[1] = found
unindex(ARGV[1], before)
return removed
`;

/** Notes that a block of a generation is absent. KEYS: entry. ARGV: generation. */
export const damageScript = `
local header = redis.call('HGET', KEYS[1], 'h:' .. ARGV[1])
if header then redis.call('HSET', KEYS[1], 'h:' .. ARGV[1], (string.gsub(header, '^(%d+) %d', '%1 0'))) end
`;

/** Sets the time to live of keys that exist. KEYS: the keys. ARGV: milliseconds. */
export const expireScript = `
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end
`;

/** Extends the life of an entry. KEYS: entry, index. ARGV: milliseconds. */
export const extendScript = `
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1] * 2)
`;

/** Returns a text with 1 for each key that exists, and 0 for each other. KEYS: the keys. */
export const existScript = `
local found = {}
for at, key in ipairs(KEYS) do found[at] = redis.call('EXISTS', key) end
return table.concat(found)
`;

/** Removes members from the index of an entry that does not exist any more. KEYS: entry, index. ARGV: members. */
export const cleanScript = `
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('ZREM', KEYS[2], unpack(ARGV)) end
`;

/**
 * Begins to make an index again: a member that is lost with the index if it is evicted meanwhile. KEYS: index. ARGV: token, time to live,
 * because the process that makes the index may end meanwhile.
 */
export const beginIndexScript = `
if redis.call('ZSCORE', KEYS[1], 'm') then return 0 end
redis.call('ZADD', KEYS[1], 0, 'r' .. ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
`;

/** Puts an entry into the index that is made again. KEYS: entry, index. ARGV: time to live of the index. */
export const indexScript = `${common}
local key = redis.call('HGET', E, 'k')
if not key then return end
redis.call('ZADD', X, 0, 'k' .. key)
for tag in pairs(tags()) do redis.call('ZADD', X, 0, 't' .. tag .. key) end
redis.call('PEXPIRE', X, ARGV[1])
`;

/** Marks an index as whole, where it was not evicted since it was begun. KEYS: index. ARGV: token, time to live. Returns 1 where it did. */
export const endIndexScript = `
if redis.call('ZREM', KEYS[1], 'r' .. ARGV[1]) == 0 then return 0 end
redis.call('ZADD', KEYS[1], 0, 'm')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
`;

/**
 * Returns for each index the first of its members, at most ARGV[3] of them, and whether it is whole: 1 or 0; 2 where it was not looked at,
 * because so many were found before. KEYS: indexes. ARGV: first and last member as ZRANGEBYLEX has them, most members.
 */
export const rangesScript = `
local found, count = {}, 0
for at, key in ipairs(KEYS) do
  found[at] = { 2, {} }
  if count < tonumber(ARGV[3]) then
    local members = redis.call('ZRANGEBYLEX', key, ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
    found[at] = { redis.call('ZSCORE', key, 'm') and 1 or 0, members }
    count = count + #members
  end
end
return found
`;

/**
 * Returns members of an index, at most ARGV[3] of them, and whether it is whole. KEYS: index. ARGV: first and last member as ZRANGEBYLEX
 * has them, most members; with a fourth one they come from the last to the first.
 */
export const rangeScript = `
local isWhole = redis.call('ZSCORE', KEYS[1], 'm') and 1 or 0
if ARGV[4] then return { isWhole, redis.call('ZREVRANGEBYLEX', KEYS[1], ARGV[2], ARGV[1], 'LIMIT', 0, ARGV[3]) } end
return { isWhole, redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3]) }
`;
