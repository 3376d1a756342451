package fanout

// Logs returns how many logs have members, or a reader.
func (r *Router) Logs() int { return len(r.all()) }

// Load is what a router holds.
type Load struct{ Queued, Weight, Busy, Holds, Members int }

// Load returns what the router holds of all logs.
func (r *Router) Load() (all Load) {
	for _, l := range r.all() {
		l.mu.Lock()
		all.Queued, all.Weight = all.Queued+l.queued, all.Weight+l.weight
		all.Busy, all.Holds, all.Members = all.Busy+len(l.busy), all.Holds+len(l.holds), all.Members+len(l.members)
		l.mu.Unlock()
	}
	return all
}
