// <sluice-portal src="…">: the portal in a page of another origin. src is the URL of a link (POST /v1/portal/links), which works
// once. The frame is as high as its content, and takes the custom properties --sl-… that the element has in the page's styles.
// The event `ended` asks for another link.

const names = ['font', 'mono', 'page', 'panel', 'line', 'strong-line', 'text', 'quiet', 'accent', 'on-accent', 'good', 'good-back', 'warn', 'warn-back', 'bad', 'bad-back', 'info', 'info-back', 'radius'].map((name) => `--sl-${name}`)

const least = 360 // pixels

class SluicePortal extends HTMLElement {
  static observedAttributes = ['src', 'theme']

  private frame: HTMLIFrameElement | undefined

  private readonly hear = (event: MessageEvent<{ sluice?: unknown; height?: unknown } | null>): void => {
    const { frame } = this
    if (!frame || event.source !== frame.contentWindow || event.origin !== new URL(frame.src).origin) return
    switch (event.data?.sluice) {
      case 'ready':
        this.paint()
        return
      case 'size':
        if (typeof event.data.height === 'number' && Number.isFinite(event.data.height)) frame.style.height = `${Math.max(least, event.data.height)}px`
        return
      case 'ended':
        this.dispatchEvent(new CustomEvent('ended'))
    }
  }

  connectedCallback(): void {
    addEventListener('message', this.hear)
    this.show()
  }

  disconnectedCallback(): void {
    removeEventListener('message', this.hear)
    this.frame?.remove()
    this.frame = undefined
  }

  attributeChangedCallback(name: string): void {
    if (!this.isConnected) return
    if (name === 'src') this.show()
    else this.paint()
  }

  /** Puts the frame into the element. Another link needs another frame: with the same path, only the fragment would change. */
  private show(): void {
    this.frame?.remove()
    this.frame = undefined
    const src = this.getAttribute('src')
    if (!src) return
    const url = new URL(src, document.baseURI)
    if (url.protocol !== 'https:' && url.protocol !== 'http:') return
    const frame = document.createElement('iframe')
    frame.title = this.getAttribute('label') ?? 'Webhooks'
    frame.referrerPolicy = 'no-referrer'
    frame.allow = 'clipboard-write'
    frame.style.cssText = `display:block;width:100%;border:0;height:${least}px`
    frame.src = url.href
    this.frame = frame
    this.append(frame)
  }

  /** Tells the frame the colours of the page around it. */
  private paint(): void {
    if (!this.frame) return
    const styles = getComputedStyle(this)
    const theme = Object.fromEntries(names.map((name) => [name, styles.getPropertyValue(name).trim()]).filter(([, value]) => value))
    this.frame.contentWindow?.postMessage({ sluice: 'theme', theme, scheme: this.getAttribute('theme') }, new URL(this.frame.src).origin)
  }
}

if (!customElements.get('sluice-portal')) customElements.define('sluice-portal', SluicePortal)

export {}
