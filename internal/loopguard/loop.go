package loopguard

import "github.com/sluice-io/sluice/pkg/sluice"

// Found is a chain that must not go on.
type Found struct {
	Chain []sluice.Link // the nearest cause first
	Hops  int
	Again bool // it holds an event of the same type on the same path; else it is too long
}

// Loop returns what is wrong with an event whose causes are the chain, the nearest first; nil if
// nothing is. A hop is a cause that is named: the last one counts though nobody knows it.
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
