package doctor

import (
	"context"
	"fmt"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// nearlyFull is the part of a limit, in percent, from which the doctor warns.
const nearlyFull = 80

// checkRoom checks the free space of the store, and of each namespace's log. A server that is not
// ready still reports its store, because a full one can be the reason.
func (e *examination) checkRoom(ctx context.Context) {
	token, err := e.session.BearerToken()
	if !e.reached || err != nil {
		e.note("storage", "skip", "no server or no token")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	api, err := e.session.ClientOf(e.addresses.HTTP, token)
	if err != nil {
		e.note("storage", "fail", "%v", err)
		return
	}
	storage, err := api.Storage(ctx)
	switch {
	case err == nil:
		e.noteStorage(storage)
	case sluice.CodeOf(err) == sluice.CapabilityRequired:
		e.note("storage", "skip", "requires the token of an admin of everything")
	default:
		e.note("storage", "fail", "%v", err)
		return
	}
	if e.api == nil {
		e.note("logs", "skip", "the server is not ready")
		return
	}
	all, err := terminal.Collect(0, func(cursor string, _ int) (client.Page[sluice.Namespace], error) {
		return api.Namespaces(ctx, cursor)
	})
	if err != nil {
		e.note("logs", "fail", "%v", err)
		return
	}
	e.noteLogs(all)
}

// noteStorage notes the level of the store. A level from tight on is a failure, because the server
// then refuses events. Use above nearlyFull percent, or an unknown limit, is a warning.
func (e *examination) noteStorage(s sluice.Storage) {
	used, known := percent(s.UsedBytes, s.LimitBytes)
	switch {
	case s.Level >= sluice.StorageTight && !known:
		e.note("storage", "fail", "%s used: %s", mebibytes(s.UsedBytes), s.Problem)
	case s.Level >= sluice.StorageTight:
		e.note("storage", "fail", "%d %% of %s used: %s", used, mebibytes(s.LimitBytes), s.Problem)
	case !known:
		e.note("storage", "warn", "%s used; the limit of the NATS server is unknown: once it is full, nothing can be paused, deleted or revoked; set nats.max_store below it", mebibytes(s.UsedBytes))
	case used > nearlyFull:
		e.note("storage", "warn", "%d %% of %s used; free space, shorten retentions, or raise nats.max_store (max_file_store of an external NATS server)", used, mebibytes(s.LimitBytes))
	default:
		e.note("storage", "ok", "%d %% of %s used", used, mebibytes(s.LimitBytes))
	}
}

// noteLogs warns of logs that are so full that events may be removed before their max_age.
func (e *examination) noteLogs(all []sluice.Namespace) {
	var tight []string
	for _, ns := range all {
		if ns.Usage == nil || ns.Retention.MaxBytes <= 0 {
			continue
		}
		if used, _ := percent(ns.Usage.Bytes, uint64(ns.Retention.MaxBytes)); used > nearlyFull {
			tight = append(tight, fmt.Sprintf("%s (%d %%)", ns.Name, used))
		}
	}
	if len(tight) > 0 {
		e.note("logs", "warn", "near max_bytes, so events are removed before max_age: %s", some(tight))
		return
	}
	e.note("logs", "ok", "none of %d is near its max_bytes", len(all))
}

// percent returns how much of the limit is used, and whether there is one. limit is 0 if there is
// none. part may exceed 100.
func percent(used, limit uint64) (part int, limited bool) {
	if limit == 0 {
		return 0, false
	}
	return int(float64(used) / float64(limit) * 100), true
}
