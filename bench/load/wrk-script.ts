/** The Lua script with which wrk creates the requests and prints the result as JSON. */

import { BenchFault } from '../fault.ts';
import { distinctPatternBytes, distinctStepBytes } from '../sample-file.ts';
import type { RequestPlan } from './load.ts';
import { browserHead } from './requests.ts';

/** Returns the script for a plan at a port of loopback. Without a `request` function wrk repeats one request at no cost. */
export function wrkScript(port: number, request: RequestPlan): string {
  return `${requestFunction(port, request)}
function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"bytes":%d,"seconds":%f,"p50Us":%d,"p99Us":%d,"p999Us":%d,"failures":%d}',
    summary.requests, summary.bytes, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
    latency:percentile(99.9),
    e.connect + e.read + e.write + e.status + e.timeout))
end
`;
}

function requestFunction(port: number, request: RequestPlan): string {
  switch (request.kind) {
    case 'whole':
      return '';
    case 'ranges': {
      const { file, sizeBytes, stepBytes = 1 } = request;
      const lastStep = Math.floor((file.window.end - file.window.start - sizeBytes) / stepBytes);
      return `
math.randomseed(os.time())
local head = "GET ${file.path} HTTP/1.1\\r\\nHost: 127.0.0.1:${port}\\r\\nRange: bytes="
function request()
  local start = math.random(0, ${lastStep}) * ${stepBytes}
  return head .. start .. "-" .. start + ${sizeBytes - 1} .. "\\r\\n\\r\\n"
end`;
    }
    case 'distinct': {
      const { series, sizeBytes } = request;
      return `
local index = 0
function request()
  local start = (index * ${distinctStepBytes}) % ${distinctPatternBytes - sizeBytes}
  local path = "/${series}-" .. index .. "/" .. start .. "-" .. start + ${sizeBytes}
  index = index + 1
  return "GET " .. path .. " HTTP/1.1\\r\\nHost: 127.0.0.1:${port}\\r\\n\\r\\n"
end`;
    }
    case 'media':
      throw new BenchFault('the script of wrk has no media requests');
    case 'objects': {
      const { series, count, sizeBytes, popularity, head, question, fields: more = '' } = request;
      if (question?.method === 'HEAD') throw new BenchFault('wrk would wait for the body of a response to HEAD');
      const [beforeEtag = '', afterEtag] = question?.fields.split('{etag}') ?? [];
      const etag = `"\\"" .. start .. "-" .. start + ${sizeBytes} .. "\\""`;
      const asked = afterEtag === undefined ? '' : ` .. ${etag} .. ${luaText(afterEtag)}`;
      const { beforeAgent, beforeLanguage, beforeReferrer, languages, userAgents, referrers } = browserHead;
      const fields =
        head === 'plain'
          ? '"Accept: */*\\r\\n"'
          : `${luaText(beforeAgent)} .. math.random(0, ${userAgents - 1}) .. ${luaText(beforeLanguage)} .. ` +
            `languages[math.random(1, ${languages.length})] .. ${luaText(beforeReferrer)} .. math.random(0, ${referrers - 1}) .. "\\r\\n"`;
      return `
math.randomseed(os.time())
local languages = { ${languages.map(luaText).join(', ')} }
function request()
  local index = ${popularity === 'even' ? `math.random(0, ${count - 1})` : `math.floor(${count} ^ math.random()) - 1`}
  local start = (index * ${distinctStepBytes}) % ${distinctPatternBytes - sizeBytes}
  local path = "/${series}-" .. index .. "/" .. start .. "-" .. start + ${sizeBytes}
  return "GET " .. path .. " HTTP/1.1\\r\\nHost: 127.0.0.1:${port}\\r\\n" .. ${fields} .. ${luaText(more + beforeEtag)}${asked} .. "\\r\\n"
end`;
    }
  }
}

/** Returns a text as a Lua string literal. */
function luaText(text: string): string {
  return JSON.stringify(text);
}
