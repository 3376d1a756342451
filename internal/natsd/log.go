package natsd

import (
	"fmt"
	"log/slog"
	"sync"
)

// logger gives the server's log to slog and keeps its first fatal line, because that is how
// the server tells that it could not start.
type logger struct {
	log *slog.Logger

	mu      sync.Mutex
	started bool
	fatal   error
}

// Fatal returns the first fatal line as an error, or nil.
func (l *logger) Fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

// Started says that nobody asks for fatal lines any more.
func (l *logger) Started() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = true
}

// Fatalf keeps the first line for Start, whose caller reports it; later on, it logs.
func (l *logger) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started {
		l.Errorf(format, v...)
	} else if l.fatal == nil {
		l.fatal = fmt.Errorf(format, v...)
	}
}

// Errorf logs at error.
func (l *logger) Errorf(format string, v ...any) {
	l.log.Error("nats server", slog.String("text", fmt.Sprintf(format, v...)))
}

// Warnf logs at warning.
func (l *logger) Warnf(format string, v ...any) {
	l.log.Warn("nats server", slog.String("text", fmt.Sprintf(format, v...)))
}

// Noticef logs at debug: a notice tells of nothing that an operator has to act on.
func (l *logger) Noticef(format string, v ...any) {
	l.log.Debug("nats server", slog.String("text", fmt.Sprintf(format, v...)))
}

// Debugf does nothing: the server is set not to say it.
func (l *logger) Debugf(string, ...any) {}

// Tracef does nothing: the server is set not to say it.
func (l *logger) Tracef(string, ...any) {}
