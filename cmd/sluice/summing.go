package main

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

const (
	summedMost = 10 // number of warnings with one message that are written in a period
	summedIn   = time.Minute
)

// plural returns the name of a number of subjects of warnings, by the attribute that names one of
// them; "" for other attributes.
func plural(attr string) string {
	switch attr {
	case "subscription":
		return "subscriptions"
	case "watch":
		return "watches"
	case "mirror":
		return "mirrors"
	}
	return ""
}

// summing is a log that limits repeated warnings, because many subscriptions, watches or mirrors
// may have the same problem. Of warnings about them with the same message, it writes ten per
// minute, and one line with the number of the others at the end of the minute. It writes all
// errors.
type summing struct {
	slog.Handler

	about slog.Attr // the subject named by With; empty if there is none
	state *sums
}

// sums holds the counts that a log shares with the logs derived from it by With.
type sums struct {
	out slog.Handler

	mu sync.Mutex
	of map[string]*sum // by message
}

// sum counts the warnings with one message in a period.
type sum struct {
	written int
	more    int
	about   map[string]struct{} // subjects of the warnings that were not written
	name    string              // plural of their attribute
}

func newSumming(out slog.Handler) summing {
	return summing{Handler: out, state: &sums{out: out, of: map[string]*sum{}}}
}

// Also makes another handler get the records that are written, too. Call it before the log is used.
func (h summing) Also(other slog.Handler) slog.Handler {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.out = slog.NewMultiHandler(h.state.out, other)
	h.Handler = h.state.out
	return h
}

// WithAttrs returns the log with attributes.
func (h summing) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		if plural(a.Key) != "" {
			h.about = a
		}
	}
	return h
}

// WithGroup returns the log with a group.
func (h summing) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}

// Handle writes a record, or counts it.
func (h summing) Handle(ctx context.Context, r slog.Record) error { //nolint:gocritic // slog passes records by value
	if r.Level < slog.LevelWarn || r.Level >= slog.LevelError {
		return h.Handler.Handle(ctx, r)
	}
	about := h.about
	r.Attrs(func(a slog.Attr) bool {
		if plural(a.Key) != "" {
			about = a
		}
		return about.Key == ""
	})
	if about.Key != "" && h.state.holds(r.Message, about) { //nolint:contextcheck // the period ends after the record is written
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// holds reports whether a warning is counted instead of written. The first warning with a message
// begins a period.
func (s *sums) holds(message string, about slog.Attr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.of[message]
	if is == nil {
		is = &sum{about: map[string]struct{}{}, name: plural(about.Key)}
		s.of[message] = is
		time.AfterFunc(summedIn, func() { s.end(message, is) })
	}
	if is.written < summedMost {
		is.written++
		return false
	}
	is.more++
	is.about[about.Value.String()] = struct{}{}
	return true
}

// end ends a period, if it has not ended, and writes the number of warnings that were not written.
// Records of the period are added under the lock only while the sum is in the map, so it is read
// without the lock afterwards.
func (s *sums) end(message string, is *sum) {
	s.mu.Lock()
	over := s.of[message] != is
	if !over {
		delete(s.of, message)
	}
	out := s.out
	s.mu.Unlock()
	if over || is.more == 0 {
		return
	}
	r := slog.NewRecord(time.Now(), slog.LevelWarn, message, 0)
	r.AddAttrs(slog.Int("more", is.more), slog.Int(is.name, len(is.about)), slog.Duration("within", summedIn))
	_ = out.Handle(context.Background(), r) // there is no other place to report it
}

// flush ends all periods. It is called when the server has ended, so that no count is lost.
func (h summing) flush() {
	h.state.mu.Lock()
	of := maps.Clone(h.state.of)
	h.state.mu.Unlock()
	for message, is := range of {
		h.state.end(message, is)
	}
}
