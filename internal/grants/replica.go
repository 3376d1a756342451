package grants

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	sweepEvery = 15 * time.Second // maximum delay between the end of a grant and that of its idle subscriptions
	leaveLimit = 2 * time.Second  // for the announcement that this replica leaves
)

// Replica runs the parts of this process that keep access decisions current. All fields are
// required.
type Replica struct {
	Presence *Presence
	Follower *Follower
	Records  interface {
		// FollowTo passes every record, and then every change, to a follower until ctx is done.
		FollowTo(ctx context.Context, follower *Follower) error
	}
	Log *slog.Logger
}

// Run applies the records to the index and announces the applied revision, until ctx is done or
// FollowTo ends. It returns the error of FollowTo. Without it, the replica would enforce no change
// any more, so it no longer announces that it decides, either.
func (r Replica) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop()
	parts.Go(func() { r.Presence.Run(ctx) })
	parts.Go(func() { r.Follower.Run(ctx, sweepEvery) })
	return r.Records.FollowTo(ctx, r.Follower)
}

// Leave announces that this replica no longer makes access decisions. It takes at most leaveLimit.
// Call it after Run has returned.
func (r Replica) Leave(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	r.Presence.Leave(limit)
	r.Log.DebugContext(ctx, "replica no longer makes access decisions")
}
