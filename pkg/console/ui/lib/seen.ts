// Pages that are not seen hold no connection: a browser has six to a server for all of its tabs.

/** Resolves when the page is seen, or stop ends. */
export async function untilSeen(stop: AbortSignal): Promise<void> {
  while (document.hidden && !stop.aborted) {
    await new Promise<void>((done) => {
      const go = (): void => {
        document.removeEventListener('visibilitychange', go)
        stop.removeEventListener('abort', go)
        done()
      }
      document.addEventListener('visibilitychange', go)
      stop.addEventListener('abort', go)
    })
  }
}

/** Runs a function with a signal that ends with stop, and when the page is hidden. */
export async function whileSeen<R>(stop: AbortSignal, run: (signal: AbortSignal) => Promise<R>): Promise<R> {
  const hidden = new AbortController()
  const hide = (): void => {
    if (document.hidden) hidden.abort()
  }
  document.addEventListener('visibilitychange', hide)
  try {
    return await run(AbortSignal.any([stop, hidden.signal]))
  } finally {
    document.removeEventListener('visibilitychange', hide)
  }
}
