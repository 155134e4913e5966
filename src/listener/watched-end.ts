/** Notices that a client has ended its side of a connection, where nothing reads it. */

import type { Socket } from 'node:net';

/**
 * Destroys a socket whose client ends its side, until the function is called: nothing tells the end of a socket that is not
 * read. What the client has sent stays where it is, and behind it no end is seen.
 */
export function watchForEnd(socket: Socket): () => void {
  const look = () => {
    if (socket.readableLength === 0) socket.read();
  };
  const leave = () => socket.destroy();
  socket.on('readable', look).once('end', leave);
  return () => socket.off('readable', look).off('end', leave);
}
