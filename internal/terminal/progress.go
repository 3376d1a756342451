package terminal

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress is a bar on stderr for work that takes longer than a second. Without a terminal at
// stderr there is none. It is not safe for concurrent use.
type Progress struct {
	session *Session
	What    string
	Total   int64 // bytes; -1: unknown
	started time.Time
	bar     *progressbar.ProgressBar // nil: not shown (yet)
}

// NewProgress returns a bar for total bytes; -1: unknown.
func NewProgress(s *Session, total int64) *Progress {
	return &Progress{session: s, What: "publishing", Total: total, started: time.Now()}
}

// Advance sets the total progress.
func (p *Progress) Advance(done int64) {
	if p.bar == nil {
		if !p.session.Terminal || time.Since(p.started) < time.Second {
			return
		}
		p.bar = progressbar.NewOptions64(
			p.Total, progressbar.OptionSetWriter(p.session.Stderr), progressbar.OptionSetDescription(p.What),
			progressbar.OptionShowBytes(p.What == "publishing"), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	_ = p.bar.Set64(done) // ignore a bar that cannot be drawn
}

// Close removes the bar. It can be called twice.
func (p *Progress) Close() {
	if p.bar != nil {
		_ = p.bar.Clear() // see advance
		p.bar = nil
	}
}
