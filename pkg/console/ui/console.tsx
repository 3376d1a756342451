// The console: the pages of operators.
import { render } from 'preact'
import { listen } from './lib/route.js'
import { App } from './app.js'

listen()
const root = document.querySelector('#app')
if (root) render(<App />, root)
