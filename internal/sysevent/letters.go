package sysevent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Letters hands out stored dead letters. Each batch goes to one process. A batch that is not
// confirmed in time is handed out again, to any process.
type Letters interface {
	// Follow calls tell for stored letters, and calls it again for letters for which it returned an
	// error, until ctx ends. Again means that some letters may have been announced before.
	Follow(ctx context.Context, tell func(ctx context.Context, letters []model.BuriedLetter, again bool) error) error
	// Subscription returns the subscription of a letter. Code NotFound if it was deleted.
	Subscription(ctx context.Context, id string) (*sluice.Subscription, error)
}

// runLetters announces dead letters until ctx is done. None is lost: each is handed out again until
// it is announced. If Follow fails before ctx ends, it is not started again: the error is logged,
// and the letters wait for another process, or for the next start.
func (a *Announcer) runLetters(ctx context.Context) {
	err := a.opts.Letters.Follow(ctx, func(ctx context.Context, letters []model.BuriedLetter, again bool) error {
		ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), lettersLimit)
		defer cancel()
		if again || old(letters) {
			return a.tellLetters(ctx, letters, a.publishUnknown)
		}
		return a.tellLetters(ctx, letters, a.publishAll)
	})
	if err != nil && ctx.Err() == nil {
		a.opts.Log.LogAttrs(ctx, slog.LevelError, "system events of dead letters stopped", slog.Any("error", err))
	}
}

// old reports whether one of the letters may have been announced by an earlier release, which kept
// no record of announcements.
func old(letters []model.BuriedLetter) bool {
	return slices.ContainsFunc(letters, func(l model.BuriedLetter) bool { return time.Since(l.At) > keptCheck })
}

// tellLetters publishes the announcements of letters. After an error of one namespace, those of the
// others are published nevertheless; all letters are then handed out again.
func (a *Announcer) tellLetters(ctx context.Context, letters []model.BuriedLetter, publish publishing) error {
	var failed []error
	told := map[string][]sluice.Event{} // by namespace
	for i := range letters {
		d := &letters[i].DeadLetter
		wanted, err := a.isTold(ctx, d)
		if err != nil {
			return err
		}
		if !wanted {
			continue
		}
		ev, err := dead(d).event()
		if err != nil {
			return err
		}
		told[d.Namespace] = append(told[d.Namespace], ev)
	}
	for namespace, events := range told {
		failed = append(failed, publish(ctx, namespace, events))
	}
	return errors.Join(failed...)
}

// dead returns the announcement of a dead letter. Its id is the same if the letter is stored again
// after a crash, so it is announced once.
func dead(d *sluice.DeadLetter) announcement {
	return announcement{
		namespace: d.Namespace, path: sluice.DeliveriesPath(d.Subscription), kind: sluice.TypeDeliveryDead,
		id: strings.TrimSuffix(fmt.Sprintf("dead-%s-%d-%s-%s", d.Subscription, d.Seq, d.Reason, d.Replay), "-"),
		at: d.At, data: dataOf(d),
	}
}

// isTold reports whether a dead letter should be announced. A letter of a subscription to system
// events is not: its announcement could become a dead letter itself, endlessly.
func (a *Announcer) isTold(ctx context.Context, d *sluice.DeadLetter) (bool, error) {
	if d.Path != "" && d.EventID != "" {
		return !aboutSystem(sluice.Pattern(d.Path)), nil // no wildcard matches such a path
	}
	sub, err := a.opts.Letters.Subscription(ctx, d.Subscription)
	if sluice.CodeOf(err) == sluice.NotFound {
		return false, nil // its pattern is unknown
	}
	if err != nil {
		return false, err
	}
	return !aboutSystem(sub.Pattern) && (sub.State == sluice.Active || d.EventID != "" || !a.toldExpired(sub.ID, time.Now())), nil
}

// publishUnknown is publishAll for events some of which may have been published before the dedup
// window.
func (a *Announcer) publishUnknown(ctx context.Context, namespace string, events []sluice.Event) error {
	events, err := a.unknown(ctx, namespace, events)
	if err != nil || len(events) == 0 {
		return err
	}
	return a.publishAll(ctx, namespace, events)
}

// publishAll publishes events of one namespace, in order; it drops them if the namespace is gone.
func (a *Announcer) publishAll(ctx context.Context, namespace string, events []sluice.Event) error {
	_, err := a.publisher.Publish(ctx, namespace, events)
	switch sluice.CodeOf(err) { //nolint:exhaustive // the other codes go to the caller
	case sluice.NotFound:
		return nil
	case sluice.Conflict: // another publisher has used one of these ids
		return a.publishRenamed(ctx, namespace, events)
	}
	return err
}

// publishRenamed publishes events one by one, those with a taken id under a new one. After an
// error, the events before it are published; the caller's next try publishes only the renamed ones
// of them again.
func (a *Announcer) publishRenamed(ctx context.Context, namespace string, events []sluice.Event) error {
	for _, ev := range events {
		_, err := a.publisher.Publish(ctx, namespace, []sluice.Event{ev})
		if sluice.CodeOf(err) == sluice.Conflict {
			ev.ID += "-" + uuid.NewString()
			_, err = a.publisher.Publish(ctx, namespace, []sluice.Event{ev})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// toldExpired reports whether the expiry of events of a subscription without an owner was announced
// within the last hour. The limit is needed because in a log with very short retention the expired
// events may be the earlier announcements themselves.
func (a *Announcer) toldExpired(subscription string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.expired, func(_ string, told time.Time) bool { return now.Sub(told) >= expiredEvery })
	if _, told := a.expired[subscription]; told {
		return true
	}
	a.expired[subscription] = now
	return false
}
