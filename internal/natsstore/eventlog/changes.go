package eventlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of a page of changes, besides q.Limit.
const (
	changesScan   = 10_000  // messages that are read
	changesBytes  = 4 << 20 // of data
	changesAtOnce = 4       // pages that are read concurrently, for all callers
	changesTries  = 3       // if the log was created again, or lost its first messages, while the page was read
)

// Changes returns the changes of a namespace after a sequence, in ascending order, and the sequence
// up to which there are no others that the caller may know. It skips messages that are not events,
// system events and records of streams. There may be a next page even if this one is not full. All
// changes of a page are from the log with the incarnation of the page. Events can be missing from a
// page only before its FirstSeq. Codes: NotFound for the namespace; Unavailable. At the end of the
// log, ThroughSeq is the last sequence and Items may be empty. While changesAtOnce other pages are
// read, the call waits, until ctx ends. To continue, pass ThroughSeq as q.Since, and compare the
// incarnation and the tags, which show that the log was replaced. A page has at most q.Limit
// changes, by default 100, and never more than 1,000.
func (l *Log) Changes(ctx context.Context, ns string, q model.ChangeQuery) (sluice.ObservePage, error) {
	select {
	case l.observers <- struct{}{}:
		defer func() { <-l.observers }()
	case <-ctx.Done():
		return sluice.ObservePage{}, context.Cause(ctx)
	}
	info, err := l.core.EventsInfo(ctx, ns)
	for range changesTries {
		if err != nil {
			return sluice.ObservePage{}, err
		}
		r := l.newChangeReader(ns, q, info)
		if q.Brief && r.begin >= r.until {
			return r.page, nil
		}
		if err := r.read(ctx); err != nil {
			return sluice.ObservePage{}, fmt.Errorf("read %s: %w", ns, natsstore.StoreError(ctx, err))
		}
		if err := r.named(ctx); err != nil {
			return sluice.ObservePage{}, err
		}
		if info, err = l.core.EventsInfo(ctx, ns); err == nil && r.settle(info) {
			return r.page, nil
		}
	}
	return sluice.ObservePage{}, sluice.Errorf(sluice.Unavailable, "the log of %s loses its oldest events faster than they are read; retry", ns)
}

// known describes of which erased events the caller may know.
type known struct {
	every  bool
	places map[string]bool // pseudonyms of paths
}

// changeReader collects a page.
type changeReader struct {
	log     *Log
	ns      string
	q       model.ChangeQuery
	begin   uint64 // sequence after which the page starts
	until   uint64 // last sequence that is read
	scanned int
	bytes   int
	holed   bool             // some sequences were missing
	hole    uint64           // sequence before the first missing one
	erased  map[string]known // by label
	stored  string           // time at which the message at page.ThroughSeq was stored; "": unknown
	page    sluice.ObservePage
}

func (l *Log) newChangeReader(ns string, q model.ChangeQuery, info *jetstream.StreamInfo) *changeReader {
	if q.Limit <= 0 {
		q.Limit = defaultPage
	}
	q.Limit = min(q.Limit, maxPage)
	first, last := info.State.FirstSeq, info.State.LastSeq
	begin := max(q.Since, max(first, 1)-1)
	return &changeReader{log: l, ns: ns, q: q, begin: begin, until: last, erased: map[string]known{}, page: sluice.ObservePage{
		Incarnation: incarnationOf(info), FirstSeq: first, LastSeq: last, ThroughSeq: begin, Items: []sluice.Change{},
	}}
}

// read reads until the page is full, the end of the log is reached, or a limit is reached.
func (r *changeReader) read(ctx context.Context) error {
	err := natsstore.UntilCaughtUp(ctx, func() error {
		for r.wants() {
			if err := r.next(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, natsstore.ErrBehind) && r.page.ThroughSeq > r.begin {
		return nil // the page ends here
	}
	return err
}

// next reads the next messages.
func (r *changeReader) next(ctx context.Context) error {
	msgs, more, err := r.log.core.Direct(ctx, r.ns, natsstore.DirectRequest{Seq: r.page.ThroughSeq + 1, Batch: r.batch()})
	if err != nil {
		return err
	}
	for _, msg := range msgs {
		if !r.wants() {
			return nil
		}
		if err := r.take(msg); err != nil {
			return err
		}
	}
	if more {
		return nil
	}
	return r.atEnd(ctx)
}

func (r *changeReader) wants() bool {
	return r.page.ThroughSeq < r.until && len(r.page.Items) < r.q.Limit && r.scanned < changesScan && r.bytes < changesBytes
}

// batch returns the number of messages to request: more than are missing after some were skipped.
func (r *changeReader) batch() int {
	missing := r.q.Limit - len(r.page.Items)
	if len(r.page.Items) == r.scanned {
		return missing
	}
	return max(missing, 256)
}

// atEnd completes the page after the replica that answered had no more messages. The replica may
// lack messages that only the leader knows: then atEnd returns ErrBehind.
func (r *changeReader) atEnd(ctx context.Context) error {
	if !r.wants() {
		return nil
	}
	next, err := r.log.NextSeq(ctx, r.ns, ">", r.page.ThroughSeq+1)
	switch {
	case err != nil:
		return err
	case next > 0 && next <= r.until:
		return natsstore.ErrBehind
	}
	r.gap()
	r.page.ThroughSeq, r.stored = r.until, ""
	return nil
}

// take adds the next message.
func (r *changeReader) take(msg *nats.Msg) error {
	seq := seqOf(msg)
	if seq <= r.page.ThroughSeq {
		return fmt.Errorf("message %d after %d", seq, r.page.ThroughSeq)
	}
	if seq > r.page.ThroughSeq+1 {
		r.gap()
	}
	r.page.ThroughSeq, r.stored = min(seq, r.until), ""
	if seq > r.until {
		return nil
	}
	r.stored = natsstore.LastHeader(msg, natsstore.HeaderStored)
	r.scanned++
	if subject := natsstore.LastHeader(msg, natsstore.HeaderSubject); subject == r.log.core.Names().ErasedSubject(r.ns) {
		r.takeErased(msg, subject, seq)
		return nil
	}
	ev, err := r.log.stamps.directEvent(msg)
	if ev.Seq == 0 {
		return err
	}
	if err == nil && r.shows(&ev) {
		r.page.Items = append(r.page.Items, sluice.ChangeOf(ev))
		r.bytes += msg.Size()
	}
	return nil
}

func (r *changeReader) takeErased(msg *nats.Msg, subject string, seq uint64) {
	record, ok := r.log.stamps.erased(msg, subject)
	if !ok {
		return
	}
	if may := r.may(record.Label); !may.every && !may.places[record.On] {
		return
	}
	is := sluice.Change{Op: sluice.OpDelete, Event: sluice.Event{Namespace: r.ns, Seq: seq, ID: record.ID}, ErasedSeq: record.Seq}
	if record.Of != "" {
		is.Event.Extensions = map[string]string{sluice.RevisionOf: record.Of}
	}
	r.page.Items = append(r.page.Items, is)
}

// may returns of which erased events with the label the caller may know.
func (r *changeReader) may(label string) known {
	if r.q.Erased == nil {
		return known{every: true}
	}
	may, ok := r.erased[label]
	if !ok {
		var paths []sluice.Path
		paths, may.every = r.q.Erased(label)
		may.places = r.log.stamps.places(r.ns, paths)
		r.erased[label] = may
	}
	return may
}

// shows reports whether an event is not a system event and the caller may see it.
func (r *changeReader) shows(ev *sluice.Event) bool {
	return !isSystem(ev.Path) && (r.q.Visible == nil || r.q.Visible(ev))
}

// gap records that the message after page.ThroughSeq is missing: messages may have been deleted
// from the log while it was read.
func (r *changeReader) gap() {
	if !r.holed {
		r.holed, r.hole = true, r.page.ThroughSeq
	}
}

// named sets the tag of the message at the sequence q.Since if it is stored.
func (r *changeReader) named(ctx context.Context) error {
	if r.q.Since == 0 || r.q.Since < r.page.FirstSeq || r.q.Since > r.page.LastSeq {
		return nil
	}
	msg, err := r.log.leaders(ctx, r.ns, natsstore.MessageRequest{Seq: r.q.Since})
	if err == nil && msg.Seq > 0 {
		r.page.SinceTag = r.tag(msg.Seq, msg.Time)
	}
	return err
}

// tag returns the tag of a message that was stored at a time. It has 32 bits: these are too few for
// a caller to find the time of a message that it may not see by trying all times.
func (r *changeReader) tag(seq uint64, at time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", r.page.Incarnation, seq, at.UnixNano()))
	return hex.EncodeToString(sum[:4])
}

// settle completes the page with the state of the log after the read. It returns false if the page
// is invalid: the log was created again, or messages at the start of the page were deleted. If
// later messages of the page were deleted, the page ends before them.
func (r *changeReader) settle(info *jetstream.StreamInfo) bool {
	if incarnationOf(info) != r.page.Incarnation {
		return false
	}
	if r.holed && info.State.FirstSeq > r.hole+1 {
		if r.hole == r.begin {
			return false
		}
		for n := len(r.page.Items); n > 0 && r.page.Items[n-1].Event.Seq > r.hole; n-- {
			r.page.Items = r.page.Items[:n-1]
		}
		r.page.ThroughSeq, r.stored = r.hole, ""
	}
	if at, err := time.Parse(time.RFC3339Nano, r.stored); err == nil {
		r.page.ThroughTag = r.tag(r.page.ThroughSeq, at)
	}
	r.page.HasMore = r.page.ThroughSeq < r.page.LastSeq
	return true
}
