package streams

import (
	"strconv"
	"strings"
)

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

const (
	inspectPrefix  = "inspect."
	consumerCreate = "$JS.API.CONSUMER.CREATE."
)

// inspectorConsumers is how many consumers inspectors have in a stream at most.
const inspectorConsumers = 32

// InspectorConsumers returns the names that inspectors' consumers have in each stream. No subscription has
// such a name, because its id cannot hold the first character.
func InspectorConsumers() []string {
	names := make([]string, inspectorConsumers)
	for i := range names {
		names[i] = "=inspect-" + strconv.Itoa(i)
	}
	return names
}

// InspectCreate returns the subjects of the requests with which an inspector's client makes consumers, and those
// under which they arrive in the server's account. The server answers them itself: a consumer's configuration
// decides what it may do, so that the subject of a request is not enough to permit it.
func InspectCreate() (request, arrives string) {
	return consumerCreate + ">", inspectPrefix + consumerCreate + ">"
}

// ParseInspectCreate returns the stream that a request is about; false if it names none.
func ParseInspectCreate(arrived string) (stream string, ok bool) {
	rest, ok := strings.CutPrefix(arrived, inspectPrefix+consumerCreate)
	stream, _, _ = strings.Cut(rest, ".")
	return stream, ok && stream != ""
}

// ConsumerCreate returns the subject of the request that makes a consumer with a name.
func ConsumerCreate(stream, name, filter string) string {
	subject := consumerCreate + stream + "." + name
	if filter != "" {
		subject += "." + filter
	}
	return subject
}

// LogSubjects returns the subjects of every log: events, attempts, dead letters and the ledger.
func LogSubjects() []string {
	return []string{EventsSubjects(AnyNamespace), attemptsPrefix + ">", DeadLettersSubjects(), ledgerPrefix + ">"}
}
