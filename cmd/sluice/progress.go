package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress is a bar on stderr, for those who watch what takes longer than a second.
type progress struct {
	session *session
	what    string
	total   int64 // bytes; -1: unknown
	started time.Time
	bar     *progressbar.ProgressBar // nil: not shown (yet)
}

func newProgress(s *session, total int64) *progress {
	return &progress{session: s, what: "publishing", total: total, started: time.Now()}
}

// advance says how far it has come altogether.
func (p *progress) advance(done int64) {
	if p.bar == nil {
		if !p.session.terminal || time.Since(p.started) < time.Second {
			return
		}
		p.bar = progressbar.NewOptions64(
			p.total, progressbar.OptionSetWriter(p.session.stderr), progressbar.OptionSetDescription(p.what),
			progressbar.OptionShowBytes(p.what == "publishing"), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	_ = p.bar.Set64(done) // a bar that cannot be drawn is no reason to stop
}

// close takes the bar away. It can be called twice.
func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Clear() // see advance
		p.bar = nil
	}
}
