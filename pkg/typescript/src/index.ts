export { type Config, type Options, Sluice } from './client.js'
export { SluiceError } from './error.js'
export type { Frame } from './feed.js'
export type * from './types.js'
