package natsd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// logger passes the NATS server's log to slog. It keeps the first fatal line, which is the server's
// only report of a failed start, and the first line about a failed write, which is the only report
// that the server stores nothing more.
type logger struct {
	log *slog.Logger

	mu      sync.Mutex
	started bool
	fatal   error

	intact context.Context //nolint:containedctx // returned by Intact
	broken context.CancelCauseFunc
}

func newLogger(log *slog.Logger) *logger {
	l := &logger{log: log}
	l.renew()
	return l
}

// Intact returns a context that ends with the first line about a failed write.
func (l *logger) Intact() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.intact
}

// renew makes a new context for Intact. The caller holds the lock.
func (l *logger) renew() {
	l.intact, l.broken = context.WithCancelCause(context.Background()) //nolint:forbidigo // it ends with a line of the log
}

// Restarted forgets earlier lines.
func (l *logger) Restarted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started, l.fatal = false, nil
	if l.intact.Err() != nil {
		l.renew()
	}
}

// Fatal returns the first fatal line as an error, or nil.
func (l *logger) Fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

// Started ends the keeping of fatal lines: later ones are logged.
func (l *logger) Started() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = true
}

// Fatalf keeps the first line, which Start returns as its error. It logs all others.
func (l *logger) Fatalf(format string, v ...any) {
	if !l.keep(fmt.Errorf(format, v...)) {
		l.Errorf(format, v...)
	}
}

// keep keeps a fatal line for Start if it is the first one, and reports whether it was.
func (l *logger) keep(fatal error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started && l.fatal == nil {
		l.fatal = fatal
	}
	return !l.started
}

// Errorf logs at error level. Of failed writes it logs only the first one, as a warning, because
// the watcher of Intact reports the consequences. The server repeats the line for each stream and
// each of its messages.
func (l *logger) Errorf(format string, v ...any) {
	text, level := fmt.Sprintf(format, v...), slog.LevelError
	if follows(text) {
		intact, broken := l.state()
		level = slog.LevelWarn
		if intact.Err() != nil {
			level = slog.LevelDebug
		}
		broken(errors.New(text))
	}
	l.log.Log(l.Intact(), level, "nats server", slog.String("text", text))
}

func (l *logger) state() (context.Context, context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.intact, l.broken
}

// Warnf logs at warning level.
func (l *logger) Warnf(format string, v ...any) {
	l.log.Warn("nats server", slog.String("text", fmt.Sprintf(format, v...)))
}

// Noticef logs at debug level: a notice requires no action of an operator.
func (l *logger) Noticef(format string, v ...any) {
	l.log.Debug("nats server", slog.String("text", fmt.Sprintf(format, v...)))
}

// Debugf does nothing: the server is configured without debug lines.
func (l *logger) Debugf(string, ...any) {}

// Tracef does nothing: the server is configured without trace lines.
func (l *logger) Tracef(string, ...any) {}
