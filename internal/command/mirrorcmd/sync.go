package mirrorcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

type mirrorSyncCmd struct {
	ID   string `arg:"" help:"Mirror."`
	Wait bool   `help:"Wait for the end of the source, and show the status. Ctrl-C keeps what was copied."`
}

// Run makes the mirror sync. With --wait, it returns an error unless the mirror reaches the end of
// its source. A suspended mirror is an error, with its reason; the status is printed before it.
func (c *mirrorSyncCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, _, err := findMirror(ctx, s, c.ID)
	if err != nil {
		return err
	}
	if !c.Wait {
		if _, _, err := api.SyncMirror(ctx, c.ID, 0); err != nil {
			return err
		}
		return cmdkit.Done(s, "Mirror %s syncs.", c.ID)
	}
	st, err := waitForSync(ctx, s, api, c.ID)
	if err != nil {
		return err
	}
	if err := s.Show(st, func() error { return mirrorStatusTable(s, &st) }); err != nil {
		return err
	}
	if st.State == sluice.SyncSuspended {
		return errors.New("the mirror is suspended: " + st.Reason)
	}
	return nil
}

// waitForSync returns the status of a mirror when it has reached the end of its source, or is
// suspended. The server bounds one request, so it asks again until the end. The requests run in a
// goroutine of their own, which ends with ctx; the bar polls the status beside it, on a terminal
// only.
func waitForSync(ctx context.Context, s *terminal.Session, api *client.Client, id string) (sluice.MirrorStatus, error) {
	var st sluice.MirrorStatus
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for end := false; !end && err == nil; {
			st, end, err = api.SyncMirror(ctx, id, client.MaxSyncWait)
		}
	}()
	bar := terminal.NewProgress(s, -1)
	bar.What = "syncing"
	defer bar.Close()
	tick := time.NewTicker(cmdkit.PollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return st, err
		case <-tick.C:
		}
		if !s.Terminal {
			continue // nothing would be drawn
		}
		if now, unknown := api.MirrorStatus(ctx, id); unknown == nil {
			bar.Total = int64(min(now.SourceSeq, 1<<62))
			bar.Advance(int64(min(now.Watermark, 1<<62)))
		}
	}
}

type mirrorStatusCmd struct {
	ID string `arg:"" help:"Mirror."`
}

// Run shows the status. The exit status is 0 also for a stale or suspended mirror.
func (c *mirrorStatusCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, _, err := findMirror(ctx, s, c.ID)
	if err != nil {
		return err
	}
	st, err := api.MirrorStatus(ctx, c.ID)
	if err != nil {
		return err
	}
	return s.Show(st, func() error { return mirrorStatusTable(s, &st) })
}

// mirrorStatusTable prints the state of a mirror, its progress, and its gaps. The gaps are ranges
// of sequences that the copy lacks for good.
func mirrorStatusTable(s *terminal.Session, st *sluice.MirrorStatus) error {
	stale, failures := "", ""
	if st.Stale {
		stale = "yes"
	}
	if st.Failures > 0 {
		failures = strconv.Itoa(st.Failures)
	}
	if err := s.Say("%s\n", st.Sentence); err != nil {
		return err
	}
	err := s.Facts("state", cmdkit.Because(string(st.State), st.Reason), "watermark", fmt.Sprintf("%d of %d", st.Watermark, st.SourceSeq), "lag", fmt.Sprintf("%d sequences, %s", st.LagItems, terminal.FormatDuration(sluice.Duration(time.Duration(st.LagSeconds)*time.Second))),
		"entries", strconv.Itoa(st.MirroredCount), "deleted", strconv.Itoa(st.DeletedCount), "gaps", strconv.Itoa(st.GapCount),
		"last sync", terminal.FormatTimePtr(st.LastSyncAt), "next sync", terminal.FormatTimePtr(st.NextSyncAt), "stale", stale, "failures", failures, "error", st.Error, "log", st.Incarnation)
	if err == nil && len(st.Forks) > 0 {
		err = forkTable(s, st.Forks)
	}
	if err != nil || len(st.Gaps) == 0 {
		return err
	}
	rows := make([][]string, len(st.Gaps))
	for i, g := range st.Gaps {
		rows[i] = []string{strconv.FormatUint(g.From, 10), strconv.FormatUint(g.To, 10), g.Cause, terminal.FormatTime(g.At)}
	}
	if err := s.Say(""); err != nil {
		return err
	}
	return s.Table("MISSING FROM | TO | CAUSE | FOUND", rows)
}

// forkTable prints the bundles that contradict imported ones.
func forkTable(s *terminal.Session, forks []sluice.MirrorFork) error {
	rows := make([][]string, len(forks))
	for i, f := range forks {
		rows[i] = []string{f.Digest, f.Against, fmt.Sprintf("%d to %d", f.Since+1, f.Through), f.KeyID, terminal.FormatTime(f.ExportedAt), terminal.FormatTime(f.At)}
	}
	if err := s.Say(""); err != nil {
		return err
	}
	return s.Table("REFUSED BUNDLE | CONTRADICTS | SEQUENCES | KEY | EXPORTED | REFUSED", rows)
}
