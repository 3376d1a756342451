package integrity

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/natsstore/streamstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	missedFile  = "missed.json"    // Memory.missed, until all data was read once
	gapsMost    = 100              // maximum number of dead letters that a subscription gets for one log at a time
	missedAgain = 10 * time.Second // after dead letters could not be written
)

// missed is the state for reporting events that subscriptions may have missed. It is kept in a file
// until a complete verification ends, because deliveries continue meanwhile, and NATS skips
// messages that it cannot read.
type missed struct {
	Had  map[string]deliverystore.Had `json:"had"`            // position of each subscription before the server delivered anything
	Owed []Owed                       `json:"owed,omitempty"` // damage of logs for which no dead letters were stored yet

	verified bool      // all data was read since Had was taken
	pause    time.Time // no retry before this
}

// Owed is damage of a log for which no dead letters were stored yet.
type Owed struct {
	sluice.Damage

	Had map[string]deliverystore.Had `json:"had,omitempty"` // position of each subscription when the log was intact
}

// openMissed reads the state of an earlier run, or else the positions of the subscriptions. It must
// be called before any delivery.
func (m *Memory) openMissed(ctx context.Context, is map[string]streamstore.Count) error {
	if m.missed.Had != nil {
		return nil
	}
	if err := readJSON(filepath.Join(m.dir, missedFile), &m.missed); err != nil {
		m.log.WarnContext(ctx, "positions of subscriptions are unknown", slog.Any("error", err))
	}
	if m.missed.Had != nil || is[m.names.BucketStream(streams.Lanes)].Created.IsZero() {
		return nil
	}
	had, err := m.had(ctx)
	if err != nil {
		return err
	}
	m.missed.Had = had
	return m.keepMissed()
}

// keepMissed writes the file. The caller holds m.mu, or nothing runs concurrently yet.
func (m *Memory) keepMissed() error { return writeJSON(filepath.Join(m.dir, missedFile), m.missed) }

// owe adds damage of a log for which dead letters must be stored. The caller holds m.mu.
func (m *Memory) owe(d sluice.Damage, had map[string]deliverystore.Had) {
	if d.Namespace != "" && d.To > 0 && !slices.ContainsFunc(m.missed.Owed, func(o Owed) bool { return o.Same(d) }) {
		m.missed.Owed = append(m.missed.Owed, Owed{d, had})
	}
}

// tellMissed stores dead letters for events that subscriptions may have missed, and starts over
// after a complete verification. Dead letters are stored before the debt is removed from the file,
// so a crash repeats them, which changes nothing (BuryGap).
func (m *Memory) tellMissed(ctx context.Context) {
	m.mu.Lock()
	now, owed := time.Now(), slices.Clone(m.missed.Owed)
	wait, verified := now.Before(m.missed.pause), m.missed.verified
	m.mu.Unlock()
	if wait || len(owed) == 0 && !verified {
		return
	}
	err := m.settle(ctx, owed)
	if err == nil && verified {
		err = m.renew(ctx)
	}
	if err != nil && ctx.Err() == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.missed.pause = now.Add(missedAgain)
		m.log.WarnContext(ctx, "dead letters of unreadable events not stored yet; retrying", slog.Any("error", err), slog.Duration("in", missedAgain))
	}
}

// settle stores dead letters for the owed damage.
func (m *Memory) settle(ctx context.Context, owed []Owed) error {
	if len(owed) == 0 {
		return nil
	}
	if m.Missed != nil {
		if err := m.Missed(ctx, m.merged(owed)); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missed.Owed = slices.Delete(m.missed.Owed, 0, len(owed)) // elements are only ever appended
	return m.keepMissed()
}

// renew starts over after all data was read, with the current positions of the subscriptions.
func (m *Memory) renew(ctx context.Context) error {
	had, err := m.had(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.missed.Owed) > 0 {
		return nil // damage found meanwhile belongs to the old state
	}
	m.missed.Had, m.missed.verified = had, false
	return remove(filepath.Join(m.dir, missedFile))
}

// merged returns the owed damage with each subscription's position. It merges the gaps of a log
// with very many of them into one range, so that a subscription gets one dead letter.
func (m *Memory) merged(owed []Owed) (all []Owed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	count := map[string]int{}
	for _, o := range owed {
		count[o.Namespace]++
	}
	for _, o := range owed {
		if o.Had == nil {
			o.Had = m.missed.Had
		}
		at := slices.IndexFunc(all, func(a Owed) bool { return a.Namespace == o.Namespace })
		if at < 0 || count[o.Namespace] <= gapsMost {
			all = append(all, o)
			continue
		}
		all[at].From, all[at].To, all[at].Path = min(all[at].From, o.From), max(all[at].To, o.To), ""
	}
	return all
}

// whole notes that all data was read.
func (m *Memory) whole() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missed.verified = true
}

func remove(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MissedBy returns the damaged sequences that a subscription may have missed, and whether there are
// any. Had is its position; the zero value is an unknown one. Events up to had.Seq were settled,
// parked or unwanted.
func MissedBy(sub *sluice.Subscription, d sluice.Damage, had deliverystore.Had) (from, to uint64, ok bool) {
	if sub.Namespace != d.Namespace || sub.Mode != sluice.Push || sub.State == sluice.Cancelled || d.Path != "" && !sub.Pattern.Match(d.Path) {
		return 0, 0, false
	}
	from = max(d.From, sub.From.Seq, 1)
	if had.Since.Equal(sub.Began()) {
		from = max(from, had.Seq+1)
	}
	return from, d.To, from <= d.To
}
