package fanout

// Logs returns how many logs have members, or a reader.
func (r *Router) Logs() int { return len(r.all()) }
