import './storage.js'
import { signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'

const stored = localStorage.getItem('sluice.theme')
export const theme = signal<Theme>(stored === 'light' || stored === 'dark' ? stored : 'system')

export function setTheme(next: Theme): void {
  theme.value = next
  localStorage.setItem('sluice.theme', next)
  apply()
}

/** Tells the style sheet. Without a choice it follows the system. */
export function apply(): void {
  if (theme.value === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = theme.value
}

apply()
