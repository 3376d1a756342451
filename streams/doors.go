package streams

import (
	"strconv"
	"strings"
)

// Publishers and readers in other NATS accounts reach the logs through two further sets of
// subjects. A namespace of "*" means all namespaces.
const (
	trustedPrefix = "trusted."
	livePrefix    = "live."
)

// AnyNamespace is the wildcard for the namespace in a subject.
const AnyNamespace = "*"

// TrustedSubjects returns the subjects for events with trusted auth attributes. The server stores
// these events under the subjects of the namespace's log.
func (n Names) TrustedSubjects(namespace string) string {
	return n.dot + trustedPrefix + namespace + ".>"
}

// FromTrusted returns the log subject for a trusted subject; false if the subject is not trusted.
func (n Names) FromTrusted(subject string) (string, bool) {
	rest, ok := strings.CutPrefix(subject, n.dot+trustedPrefix)
	return n.dot + eventsPrefix + rest, ok
}

// LiveSubjects returns the subjects under which stored events are republished to readers in other
// accounts: those of EventsSubjects with another first token.
func (n Names) LiveSubjects(namespace string) string { return n.dot + livePrefix + namespace + ".>" }

// IsLive reports whether the subject is one of LiveSubjects.
func (n Names) IsLive(subject string) bool { return strings.HasPrefix(subject, n.dot+livePrefix) }

// SystemRoot returns the subject of the system path itself; SystemSubjects are below it.
func (n Names) SystemRoot(namespace string) string { return n.dot + eventsPrefix + namespace + "._sys" }

const (
	inspectPrefix  = "inspect."
	consumerCreate = "$JS.API.CONSUMER.CREATE."
)

// inspectorConsumers is the maximum number of inspectors' consumers per stream.
const inspectorConsumers = 32

// InspectorConsumers returns the names of inspectors' consumers, the same in each stream.
// Subscriptions cannot have these names, because a subscription ID cannot contain the first
// character.
func InspectorConsumers() []string {
	names := make([]string, inspectorConsumers)
	for i := range names {
		names[i] = "=inspect-" + strconv.Itoa(i)
	}
	return names
}

// InspectCreate returns the subjects of an inspector's requests to create consumers, and the
// subjects under which they arrive in the server's account. The server answers these requests
// itself: permissions depend on the consumer's configuration, which the subject does not show.
func (n Names) InspectCreate() (request, arrives string) {
	return consumerCreate + ">", n.dot + inspectPrefix + consumerCreate + ">"
}

// ParseInspectCreate returns the stream that a request's subject names; false if it names none.
func (n Names) ParseInspectCreate(arrived string) (stream string, ok bool) {
	rest, ok := strings.CutPrefix(arrived, n.dot+inspectPrefix+consumerCreate)
	stream, _, _ = strings.Cut(rest, ".")
	return stream, ok && stream != ""
}

// ConsumerCreate returns the subject of the request that creates a named consumer.
func ConsumerCreate(stream, name, filter string) string {
	subject := consumerCreate + stream + "." + name
	if filter != "" {
		subject += "." + filter
	}
	return subject
}

// LogSubjects returns the subjects of every log: events, attempts, dead letters and the ledger.
func (n Names) LogSubjects() []string {
	return []string{n.EventsSubjects(AnyNamespace), n.dot + attemptsPrefix + ">", n.DeadLettersSubjects(), n.dot + ledgerPrefix + ">"}
}
