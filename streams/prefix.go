package streams

import (
	"slices"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Names builds the names of one Sluice in its NATS account. With the prefix "acme", the stream
// ATTEMPTS is acme_ATTEMPTS, the bucket keys is acme_keys, and the subject events.default.x is
// acme.events.default.x. The zero value is for a Sluice without a prefix. Names of consumers have
// no prefix, because their stream's name has one.
type Names struct {
	bar string // prefix of the names of streams and buckets
	dot string // prefix of subjects
}

// Prefixed returns the names with a prefix, which must be one that CheckPrefix accepts. If it is
// "", the names have no prefix.
func Prefixed(prefix string) Names {
	if prefix == "" {
		return Names{}
	}
	return Names{bar: prefix + "_", dot: prefix + "."}
}

// maxPrefix is the maximum length of a prefix.
const maxPrefix = 32

// CheckPrefix returns an error (InvalidRequest) unless the prefix is empty, or a lower-case letter
// and up to 31 of a-z, 0-9 and "-". Such a prefix ends at the first "_" of a name, so that names
// with different prefixes are always different. The first tokens of subjects without a prefix are
// refused for the same reason.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	plain := strings.Trim(prefix, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
	if !plain || len(prefix) > maxPrefix || prefix[0] < 'a' {
		return sluice.Errorf(sluice.InvalidRequest, "prefix %q: use 1 to %d of a-z, 0-9 and -, beginning with a letter", prefix, maxPrefix)
	}
	if slices.Contains(bareSubjects(), prefix+".") {
		return sluice.Errorf(sluice.InvalidRequest, "prefix %q: a server without a prefix uses this subject; choose another prefix", prefix)
	}
	return nil
}

// bareSubjects returns the first tokens of all subjects of a Sluice without a prefix.
func bareSubjects() []string {
	return []string{
		eventsPrefix, attemptsPrefix, deadLettersPrefix, ledgerPrefix, mirrorPrefix, knowledgePrefix, recordsPrefix,
		trustedPrefix, livePrefix, inspectPrefix,
	}
}

// Prefix returns the prefix; "" without one.
func (n Names) Prefix() string { return strings.TrimSuffix(n.bar, "_") }

// Streams that exist once per server.
const (
	attempts    = "ATTEMPTS"
	deadLetters = "DEADLETTERS"
	ledger      = "LEDGER"
	mirrors     = "MIRROR"
	knowledge   = "KNOWLEDGE"
)

const (
	eventsStream = "EVENTS_"
	bucketStream = "KV_"
	keySubject   = "$KV."
)

// Attempts returns the name of the stream of attempts. A message holds up to 64 attempts of a
// subscription.
func (n Names) Attempts() string { return n.bar + attempts }

// DeadLetters returns the name of the stream with one message per delivery that failed for good.
func (n Names) DeadLetters() string { return n.bar + deadLetters }

// Ledger returns the name of the stream with one message per change.
func (n Names) Ledger() string { return n.bar + ledger }

// Mirror returns the name of the stream with one message per mirrored entry, and one with the place
// of each mirror.
func (n Names) Mirror() string { return n.bar + mirrors }

// Knowledge returns the name of the stream with one message per embedding and per comparison.
func (n Names) Knowledge() string { return n.bar + knowledge }

// EventsStream returns the name of a namespace's stream.
func (n Names) EventsStream(namespace string) string { return n.bar + eventsStream + namespace }

// LogOf returns the namespace of a stream of events, given its name; false for any other stream.
func (n Names) LogOf(stream string) (namespace string, ok bool) {
	return strings.CutPrefix(stream, n.EventsStream(""))
}

// Bucket returns the name of a bucket in JetStream.
func (n Names) Bucket(bucket string) string { return n.bar + bucket }

// BucketStream returns the name of the stream that stores a bucket.
func (n Names) BucketStream(bucket string) string { return bucketStream + n.Bucket(bucket) }

// KeySubject returns the subject of a key of a bucket, or the filter subject of the keys that a
// filter matches.
func (n Names) KeySubject(bucket, key string) string {
	return keySubject + n.Bucket(bucket) + "." + key
}

// Ours reports whether a stream belongs to the Sluice with these names: a log, a bucket, or one of the
// single streams.
func (n Names) Ours(stream string) bool {
	_, isLog := n.LogOf(stream)
	return isLog || slices.Contains(n.Lasting(), stream)
}

// Bare returns the name of a stream without the prefix; false if the stream does not have it.
func (n Names) Bare(stream string) (string, bool) {
	if bucket, ok := n.bucketOf(stream); ok {
		return bucketStream + bucket, true
	}
	return strings.CutPrefix(stream, n.bar)
}

// BareSubject returns a subject without the prefix.
func (n Names) BareSubject(subject string) string { return strings.TrimPrefix(subject, n.dot) }

// EventsPrefix returns the prefix of the subjects of all events. The namespace follows it.
func (n Names) EventsPrefix() string { return n.dot + eventsPrefix }

// AnyLedger returns filters for the subjects of ledgers: without a prefix, and with any prefix.
func AnyLedger() []string { return []string{ledgerPrefix + ">", "*." + ledgerPrefix + ">"} }

// LedgerPrefix returns the prefix of a ledger's stream; false for any other stream.
func LedgerPrefix(stream string) (prefix string, ok bool) {
	prefix, ok = strings.CutSuffix(stream, ledger)
	prefix, barred := strings.CutSuffix(prefix, "_")
	return prefix, ok && (barred && prefix != "" && CheckPrefix(prefix) == nil || stream == ledger)
}

// Renamed returns the name under n of a stream that is named under from; false if the stream does
// not have the prefix of from.
func (n Names) Renamed(from Names, stream string) (string, bool) {
	bare, ok := from.Bare(stream)
	if bucket, isBucket := strings.CutPrefix(bare, bucketStream); isBucket {
		return n.BucketStream(bucket), ok
	}
	return n.bar + bare, ok
}

// RenamedSubject returns the subject under n of a subject under from, for example of an event or a
// key.
func (n Names) RenamedSubject(from Names, subject string) string {
	if key, ok := strings.CutPrefix(subject, keySubject+from.bar); ok {
		return keySubject + n.bar + key
	}
	return n.dot + from.BareSubject(subject)
}
