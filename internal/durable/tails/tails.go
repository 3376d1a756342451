// Package tails implements the ports by which the engines of wakes and of stream subscriptions read
// the ends of streams, over the stream engine.
package tails

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Log reads the logs of namespaces by path.
type Log interface {
	LastSeq(ctx context.Context, namespace string) (uint64, error)
	PathTail(ctx context.Context, namespace string, path sluice.Path) (uint64, error)
	PathBefore(ctx context.Context, namespace string, path sluice.Path, upTo uint64) (uint64, error)
	PathEnds(ctx context.Context, namespace string, pattern sluice.Pattern, each func(sluice.Path, uint64)) error
	FollowPaths(ctx context.Context, namespace string, each func(sluice.Path, uint64)) error
}

// Wakes implements wake.Streams.
type Wakes struct {
	Log    Log
	Engine *durable.Engine
	Index  *authz.Index
}

var _ wake.Streams = Wakes{}

// Visible returns the sequence of the last message of a stream, not after upTo, that a
// subscription's owner may see.
func (w Wakes) Visible(ctx context.Context, sub *sluice.Subscription, path sluice.Path, upTo uint64) (uint64, error) {
	return Subscriptions{w.Engine, w.Index}.Visible(ctx, authz.OwnerOf(sub), sub.Namespace, path, upTo)
}

// Tail returns a snapshot of a stream's end.
func (w Wakes) Tail(ctx context.Context, namespace string, path sluice.Path) (wake.Tail, error) {
	st, err := w.Engine.Standing(ctx, durable.Key{Namespace: namespace, Path: path})
	return wake.Tail{Seq: st.Last, Start: st.Start, Gone: st.Gone}, err
}

// Last returns the sequence of the last message on a path.
func (w Wakes) Last(ctx context.Context, namespace string, path sluice.Path) (uint64, error) {
	return w.Log.PathTail(ctx, namespace, path)
}

// Before returns the sequence of the last message of a stream up to a sequence.
func (w Wakes) Before(ctx context.Context, namespace string, path sluice.Path, upTo uint64) (uint64, error) {
	return w.Log.PathBefore(ctx, namespace, path, upTo)
}

// End returns the last sequence of the log.
func (w Wakes) End(ctx context.Context, namespace string) (uint64, error) {
	return w.Log.LastSeq(ctx, namespace)
}

// Ends calls each for the streams that a pattern matches, with the sequence of their last message.
func (w Wakes) Ends(ctx context.Context, namespace string, pattern sluice.Pattern, each func(sluice.Path, uint64)) error {
	return w.Log.PathEnds(ctx, namespace, pattern, each)
}

// Follow calls each for new messages on any path.
func (w Wakes) Follow(ctx context.Context, namespace string, each func(sluice.Path, uint64)) error {
	return w.Log.FollowPaths(ctx, namespace, each)
}

// FormatOffset is durable.FormatOffset.
func (Wakes) FormatOffset(seq uint64) string { return durable.FormatOffset(seq) }

// ParseOffset is durable.ParseOffset.
func (Wakes) ParseOffset(text string) (uint64, error) { return durable.ParseOffset(text) }

// Subscriptions implements streamsub.Streams.
type Subscriptions struct {
	Engine *durable.Engine
	Index  *authz.Index
}

// Tail returns the end of a stream, and false if the stream does not exist.
func (s Subscriptions) Tail(ctx context.Context, namespace string, path sluice.Path) (uint64, bool, error) {
	info, err := s.Engine.Head(ctx, durable.Key{Namespace: namespace, Path: path})
	switch sluice.CodeOf(err) { //nolint:exhaustive // any other code means that the answer is unknown
	case "":
		return info.Next, true, nil
	case sluice.NotFound, sluice.StreamGone:
		return 0, false, nil
	}
	return 0, false, err
}

// Visible returns the sequence of the last message of a stream, not after upTo, that a caller may
// see. For a caller that may see everything that is upTo itself.
func (s Subscriptions) Visible(ctx context.Context, who sluice.Caller, namespace string, path sluice.Path, upTo uint64) (uint64, error) {
	if who.Unbounded() {
		return upTo, nil
	}
	return s.Engine.LastVisible(ctx, durable.Key{Namespace: namespace, Path: path}, upTo, visibleTo(s.Index, who))
}

// visibleTo returns a Show for the events that a caller may subscribe to.
func visibleTo(index *authz.Index, who sluice.Caller) durable.Show {
	return func(ev *sluice.Event) (bool, error) {
		d := index.Shows(who, sluice.VerbSubscribe, ev, time.Now())
		if d == model.Undecided {
			return false, model.PermissionsUnknown()
		}
		return d == model.Pass, nil
	}
}

// Append appends a JSON message to a stream on behalf of a caller.
func (s Subscriptions) Append(ctx context.Context, namespace string, path sluice.Path, message []byte, by sluice.Caller) error {
	_, err := s.Engine.Append(ctx, durable.Key{Namespace: namespace, Path: path}, durable.Append{
		ContentType: durable.JSONType, Body: message,
		Admit: func(_ context.Context, events []sluice.Event) error {
			for i := range events {
				events[i].ProducedBy(by.Principal, s.Index.AuthType(by))
			}
			return nil
		},
	})
	return err
}
