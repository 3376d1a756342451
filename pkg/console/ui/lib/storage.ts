// A frame in a page of another site may have no storage. It then has one that lasts as long as the page.
for (const name of ['sessionStorage', 'localStorage'] as const) {
  try {
    void window[name].length
  } catch {
    const kept = new Map<string, string>()
    Object.defineProperty(window, name, {
      value: {
        getItem: (key: string) => kept.get(key) ?? null,
        setItem: (key: string, value: string) => void kept.set(key, value),
        removeItem: (key: string) => void kept.delete(key),
      },
    })
  }
}

export {}
