/** Why a listener cannot be opened, where the system's own error would not say it. */

/** Says in one sentence for people what is wrong, naming the file or the place. */
export class ListenFault extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ListenFault';
  }
}
