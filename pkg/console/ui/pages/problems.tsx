import type { JSX } from 'preact'
import { Title } from '../parts/basic.js'

export function Problems(): JSX.Element {
  return <Title>Problems</Title>
}
