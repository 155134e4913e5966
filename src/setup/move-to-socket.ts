/** The system's calls that move bytes of a file into a socket without a copy in this process. */

import type { MoveToSocket } from '../store/disk/file-system.ts';
import type { Emit } from '../telemetry/events.ts';

/** What goes into the socket next comes soon: it is not to be sent alone (send(2)). */
const MSG_MORE = 0x8000;
const MSG_DONTWAIT = 0x40;

/** The calls for who wishes for them (`store.sendfile`); tells where they cannot be had. */
export function wishForMoveToSocket(emit: Emit, load = loadMoveToSocket): MoveToSocket | undefined {
  const move = load();
  if (move !== undefined) return move;
  const message = 'Bodies are sent by this process, not by the system: store.sendfile has no effect here';
  const detail = `it needs Linux and Node 26 with node:ffi; this is Node ${process.versions.node} on ${process.platform}`;
  emit({ kind: 'store', level: 'warn', message, detail });
  return undefined;
}

/**
 * The calls, as `node:ffi` reaches them; undefined where it, or the system, has none of them. Sockets of Node do not wait, and
 * SIGPIPE is ignored in its processes.
 */
export function loadMoveToSocket(): MoveToSocket | undefined {
  if (process.platform !== 'linux') return undefined;
  try {
    const ffi = process.getBuiltinModule('node:ffi');
    const { functions } = ffi.dlopen(null, {
      send: { arguments: ['i32', 'buffer', 'u64', 'i32'], return: 'i64' },
      sendfile: { arguments: ['i32', 'i32', 'pointer', 'u64'], return: 'i64' },
    });
    const { send, sendfile } = functions;
    // Of its own memory, which stays where it is.
    const offset = new BigInt64Array(Buffer.allocUnsafeSlow(8).buffer);
    const offsetPointer = ffi.getRawPointer(offset);
    return (socket, head, file, position, sizeBytes) => {
      const headBytes =
        head.length === 0 ? 0 : Number(send(socket, head, BigInt(head.length), MSG_MORE | MSG_DONTWAIT));
      if (headBytes < head.length) return Math.max(0, headBytes);
      offset[0] = BigInt(position);
      return headBytes + Math.max(0, Number(sendfile(socket, file, offsetPointer, BigInt(sizeBytes))));
    };
  } catch {
    // Of an older Node, one that was built without it, or a process that may not use it.
    return undefined;
  }
}
