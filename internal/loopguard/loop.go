package loopguard

import "github.com/sluice-io/sluice/pkg/sluice"

// Found is a chain with a loop.
type Found struct {
	Chain []sluice.Link // the nearest cause first
	Hops  int
	Again bool // it has an event of the same type on the same path; otherwise it is too long
}

// Loop returns the loop of an event with the given chain of causes, the nearest first; nil if there
// is none. Every named cause is a hop, even a last one that is unknown.
func Loop(e sluice.Link, chain []sluice.Link) *Found {
	last := e
	f := Found{Chain: chain, Hops: len(chain)}
	for _, l := range chain {
		f.Again = f.Again || l.Type == e.Type && l.Path == e.Path
		last = l
	}
	if last.Cause != "" {
		f.Hops++
	}
	if f.Again || f.Hops > sluice.MaxHops {
		return &f
	}
	return nil
}
