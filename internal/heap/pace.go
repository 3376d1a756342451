package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	room        = 128 << 20 // maximum garbage, in bytes, before a collection, if
	leastTarget = 25        // this GOGC allows it; collecting more often would cost too much of a large heap
	maxTarget   = 100       // the default of the runtime
)

// Pace bounds the garbage on a large heap. By default the runtime lets as much garbage accumulate
// as memory is in use. NATS keeps recently written data until the next collection, so with a large
// import or many large events the heap would grow with every collection. GOGC overrides Pace.
func Pace() {
	if os.Getenv("GOGC") == "" {
		(&pacer{target: maxTarget}).await()
	}
}

type pacer struct{ target int }

// await adjusts the target after every collection.
func (p *pacer) await() {
	runtime.AddCleanup(&struct{ next *pacer }{}, func(p *pacer) { p.adjust(); p.await() }, p)
}

func (p *pacer) adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if target := targetFor(live[0].Value.Uint64()); target != p.target {
		p.target = target
		debug.SetGCPercent(target)
	}
}

// targetFor returns the GOGC for a number of bytes in use, in steps of 5: each change stops the process briefly.
func targetFor(live uint64) int {
	percent := int(min(maxTarget, room*100/max(live, 1)))
	return max(leastTarget, percent-percent%5)
}
