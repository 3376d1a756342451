package streams

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"time"
)

// incarnationKey is the key of the incarnation in the metadata of a log's stream, and of the stream
// of mirrors.
const incarnationKey = "sluice.incarnation"

// incarnationLength is the length of the texts that rand.Text returns.
const incarnationLength = 26

// Incarnation returns the ID of a log from its stream's name, time of creation and metadata. Two
// logs with the same name have different IDs, because sequences of one mean nothing in the other
// (decision 0046). The log of an earlier release has no ID in its metadata; its ID is derived from
// the name and the time.
func Incarnation(stream string, created time.Time, metadata map[string]string) string {
	sum := sha256.Sum256([]byte(stream + " " + created.UTC().Format(time.RFC3339Nano)))
	return cmp.Or(metadata[incarnationKey], base32.StdEncoding.EncodeToString(sum[:])[:incarnationLength])
}

// GivenIncarnation returns the ID that WithIncarnation gave a stream; "" if it gave none.
func GivenIncarnation(metadata map[string]string) string { return metadata[incarnationKey] }

// WithIncarnation returns the metadata with a new incarnation, for the stream of a log that is
// being created or restored, and for the stream of mirrors when it is restored.
func WithIncarnation(metadata map[string]string) map[string]string {
	all := map[string]string{incarnationKey: rand.Text()}
	for name, value := range metadata {
		if name != incarnationKey {
			all[name] = value
		}
	}
	return all
}
