package quota

// Len returns the number of rates that are remembered.
func (r *Rates) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}
