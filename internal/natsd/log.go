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

	mu    sync.Mutex
	fatal error
}

// Fatal returns the first fatal line as an error, or nil.
func (l *logger) Fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

// Fatalf keeps the first line for Start and logs every one: later on nobody asks.
func (l *logger) Fatalf(format string, v ...any) {
	l.Errorf(format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == nil {
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
