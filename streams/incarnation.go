package streams

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"time"
)

// incarnationKey is in the metadata of a log's stream.
const incarnationKey = "sluice.incarnation"

// incarnationLength is the length of rand.Text.
const incarnationLength = 26

// Incarnation returns the id of a log from its stream's name, time of creation and metadata: two logs
// of one name have different ones, because sequences of the one mean nothing in the other (decision
// 0046). The log of an earlier release has none in its metadata, and gets one from its name and time.
func Incarnation(stream string, created time.Time, metadata map[string]string) string {
	sum := sha256.Sum256([]byte(stream + " " + created.UTC().Format(time.RFC3339Nano)))
	return cmp.Or(metadata[incarnationKey], base32.StdEncoding.EncodeToString(sum[:])[:incarnationLength])
}

// WithIncarnation returns metadata with a new incarnation, for the stream of a log that is being made
// or restored.
func WithIncarnation(metadata map[string]string) map[string]string {
	all := map[string]string{incarnationKey: rand.Text()}
	for name, value := range metadata {
		if name != incarnationKey {
			all[name] = value
		}
	}
	return all
}
