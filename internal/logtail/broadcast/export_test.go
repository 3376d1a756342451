package broadcast

// Held returns the bytes of all buffers.
func (b *Broadcaster[M]) Held() (all int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.readers {
		all += r.ring.Weight()
	}
	return all
}
