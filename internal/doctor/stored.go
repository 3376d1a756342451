package doctor

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	verifyEvery = 200 * time.Millisecond // interval of progress requests
	maxDamage   = 20                     // that is listed in detail
)

// checkStored reports damage of the store. With --deep, it first makes the server read all data.
// --forget acknowledges first, so that the report has only damage that is found again.
func (e *examination) checkStored(ctx context.Context, c *Cmd) {
	token, err := e.session.BearerToken()
	if !e.reached || err != nil { // missing data, which is settled here, can make a server unready
		e.note("stored", "skip", "no server or no token")
		return
	}
	api, err := e.session.ClientOf(e.addresses.HTTP, token)
	if err != nil {
		e.note("stored", "fail", "%v", err)
		return
	}
	if c.Forget {
		if err := api.ForgetDamage(ctx); err != nil {
			e.note("stored", "fail", "%v", err)
			return
		}
	}
	read := readStored
	if c.Deep {
		read = readDeeply
	}
	storage, err := read(ctx, e.session, api)
	switch {
	case sluice.CodeOf(err) == sluice.CapabilityRequired:
		e.note("stored", "skip", "requires the token of an admin of everything")
	case err != nil:
		e.note("stored", "fail", "%v", err)
	case storage.Verification.Error != "":
		e.note("stored", "fail", "the verification is incomplete: %s", storage.Verification.Error)
		e.noteDamage(storage.Damage)
	default:
		e.noteDamage(storage.Damage)
		if len(storage.Damage) == 0 && c.Deep {
			e.note("stored", "ok", "%d messages and records were read", storage.Verification.Read)
		} else if len(storage.Damage) == 0 {
			e.note("stored", "ok", "no known damage; --deep reads everything")
		}
	}
}

// noteDamage reports damage. It lists at most maxDamage findings.
func (e *examination) noteDamage(all []sluice.Damage) {
	for i, d := range all {
		if i == maxDamage {
			e.note("stored", "fail", "%d more; GET /v1/storage lists all", len(all)-maxDamage)
			break
		}
		e.note("stored", "fail", "%s (found %s)", d, terminal.FormatTime(d.FoundAt))
	}
	if len(all) > 0 {
		e.note("stored", "warn", "restore a backup, or see docs/operations.md, \"Damaged files\"; then sluice doctor --forget")
	}
}

// readStored returns the state of the store. It has checkLimit.
func readStored(ctx context.Context, _ *terminal.Session, api *client.Client) (sluice.Storage, error) {
	limit, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	return api.Storage(limit)
}

// readDeeply returns the state of the store once the server has read all of it. It waits for the
// verification that it began, or for a later one. If ctx ends, the server goes on reading.
func readDeeply(ctx context.Context, s *terminal.Session, api *client.Client) (sluice.Storage, error) {
	begun, err := api.VerifyStorage(ctx)
	if err != nil {
		return sluice.Storage{}, err
	}
	bar := terminal.NewProgress(s, -1)
	bar.What = "verifying the store"
	defer bar.Close()
	for {
		storage, err := api.Storage(ctx)
		v := storage.Verification
		if err != nil || !v.EndedAt.IsZero() && !v.StartedAt.Before(begun.StartedAt) {
			return storage, err
		}
		bar.Total = int64(v.Total) //nolint:gosec // no store has so many
		bar.Advance(int64(v.Read)) //nolint:gosec // as above
		select {
		case <-ctx.Done():
			return storage, context.Cause(ctx)
		case <-time.After(verifyEvery):
		}
	}
}
