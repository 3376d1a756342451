package sysevent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// markSettled is the time in which the process that stored a mark must announce it before others
// do.
const markSettled = 10 * time.Second

// unsafeData is the data of producer_unsafe.
type unsafeData struct {
	Producer string      `json:"producer"`
	Since    time.Time   `json:"since"`
	Count    uint64      `json:"count"`
	Event    sluice.Link `json:"event"`
	Hops     int         `json:"hops"`
}

// Unsafe announces a marked producer, if its mark is stored as one to announce. It returns at once.
// It announces a mark once in a process. After a crash, a sweep of another process announces
// it.
func (a *Announcer) Unsafe(is sluice.Unsafe) {
	if is.Told == nil || !is.Told.At.Equal(is.LastAt) {
		return
	}
	n := unsafe(&is)
	if a.firstOf(n.id) {
		a.enqueue(n)
	}
}

func unsafe(is *sluice.Unsafe) announcement {
	sum := sha256.Sum256([]byte(is.Producer))
	return announcement{
		namespace: is.Told.Namespace, path: sluice.ProducersPath, kind: sluice.TypeProducerUnsafe, at: is.Told.At, stored: true,
		id:   fmt.Sprintf("unsafe-%s-%d", hex.EncodeToString(sum[:8]), is.Told.At.UnixNano()),
		data: unsafeData{Producer: is.Producer, Since: is.Since, Count: is.Told.Count, Event: is.Told.Event, Hops: is.Told.Hops},
	}
}

// firstOf reports whether this process has neither announced nor checked an id.
func (a *Announcer) firstOf(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, done := a.unsafe[id]; done {
		return false
	}
	now := time.Now()
	maps.DeleteFunc(a.unsafe, func(_ string, at time.Time) bool { return now.Sub(at) > tellWithin+time.Hour })
	a.unsafe[id] = now
	return true
}

// sweepMarks announces marks that another process stored but did not announce.
func (a *Announcer) sweepMarks(ctx context.Context) {
	if a.opts.Marks == nil {
		return
	}
	all, err := a.opts.Marks(ctx)
	if err != nil {
		if ctx.Err() == nil {
			a.opts.Log.LogAttrs(ctx, slog.LevelWarn, "unpublished marks of producers cannot be listed", slog.Any("error", err))
		}
		return
	}
	for i := range all {
		is := &all[i]
		if is.Told == nil || time.Since(is.Told.At) < markSettled || time.Since(is.Told.At) > tellWithin {
			continue
		}
		if n := unsafe(is); a.firstOf(n.id) {
			a.again(n)
		}
	}
}
