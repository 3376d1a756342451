/** Waits, up to a quarter less or more, or until the signal. */
export function pause(milliseconds: number, signal?: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const abort = (): void => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort)
      resolve()
    }, milliseconds * (0.75 + Math.random() / 2))
    signal?.addEventListener('abort', abort, { once: true })
  })
}
