package natsd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// logger passes the server's log to slog. It keeps its first fatal line, the server's only report
// of a failed start, and its first line about a failed write, the only report that it stores
// nothing more.
type logger struct {
	log *slog.Logger

	mu      sync.Mutex
	started bool
	fatal   error

	intact context.Context //nolint:containedctx // the logger hands it out
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

// renew makes an Intact that has not ended. The caller holds the lock.
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

// Started says that fatal lines are not collected any more.
func (l *logger) Started() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = true
}

// Fatalf keeps the first line for Start, whose caller reports it; later on, it logs.
func (l *logger) Fatalf(format string, v ...any) {
	if !l.keep(fmt.Errorf(format, v...)) {
		l.Errorf(format, v...)
	}
}

// keep reports whether a fatal line is one that Start reports.
func (l *logger) keep(fatal error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started && l.fatal == nil {
		l.fatal = fatal
	}
	return !l.started
}

// Errorf logs at error level. Of failed writes it logs only the first, as a warning, because the
// watcher of Intact reports the consequences. The others, one or more for each stream and each of
// its messages, repeat it.
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
