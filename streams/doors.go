package streams

import "strings"

// Beside the subjects of the logs there are two ways through which publishers and readers of
// other NATS accounts reach them. A namespace of "*" means all.
const (
	trustedPrefix = "trusted."
	livePrefix    = "live."
)

// AnyNamespace stands for every namespace in the subjects of a namespace.
const AnyNamespace = "*"

// TrustedSubjects returns the subjects under which publishers send events whose auth attributes
// are believed. The server stores them under the subjects of the namespace's log.
func TrustedSubjects(namespace string) string { return trustedPrefix + namespace + ".>" }

// FromTrusted returns the subject in the log for what was sent under a trusted subject; false
// if it is none.
func FromTrusted(subject string) (string, bool) {
	rest, ok := strings.CutPrefix(subject, trustedPrefix)
	return eventsPrefix + rest, ok
}

// LiveSubjects returns the subjects under which stored events are told again to readers of other
// accounts: those of EventsSubjects with another first token.
func LiveSubjects(namespace string) string { return livePrefix + namespace + ".>" }

// IsLive reports whether LiveSubjects makes the subject.
func IsLive(subject string) bool { return strings.HasPrefix(subject, livePrefix) }

// SystemRoot returns the subject of the server's own path itself; SystemSubjects are below it.
func SystemRoot(namespace string) string { return eventsPrefix + namespace + "._sys" }
