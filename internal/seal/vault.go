package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// version starts every sealed text, and identifies its format.
const version = "enc1."

// ErrTampered is the error for a sealed text that was changed or moved.
var ErrTampered = errors.New("the sealed text was modified or belongs to another record")

// UnknownKeyError is the error for a text that was sealed with a key that is not in the ring.
type UnknownKeyError struct{ ID string }

// Error returns the message, with the ID of the key.
func (e *UnknownKeyError) Error() string {
	return "sealed with key " + e.ID + ", which is not available"
}

// Ring holds keys, the newest first. It is immutable and safe for concurrent use. Package fmt
// prints it as the IDs of its keys.
type Ring struct{ keys []key }

type key struct {
	id   string
	aead cipher.AEAD
}

// New returns a ring of keys of KeyBytes each, the newest first. A repeated key counts once.
func New(keys ...[]byte) (*Ring, error) {
	if len(keys) == 0 {
		return nil, errors.New("no key")
	}
	r := &Ring{}
	for _, raw := range keys {
		if len(raw) != KeyBytes {
			return nil, fmt.Errorf("a key has %d bytes; it needs %d", len(raw), KeyBytes)
		}
		if r.has(ID(raw)) {
			continue
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		r.keys = append(r.keys, key{ID(raw), aead})
	}
	return r, nil
}

// ID returns the ID of a key. It reveals nothing of the key, because keys are random.
func ID(raw []byte) string {
	hash := sha256.Sum256(append([]byte("sluice vault key\n"), raw...))
	return base64.RawURLEncoding.EncodeToString(hash[:6])
}

// Place returns the location of a sealed text, from the kind and the ID of its record and the field
// in it. Different lists of names are different places, even if their concatenations are equal.
func Place(names ...string) string {
	var place []byte
	for _, name := range names {
		place = strconv.AppendInt(place, int64(len(name)), 10)
		place = append(place, ':')
		place = append(place, name...)
	}
	return string(place)
}

// Seal returns the plaintext sealed with the first key, for its place.
func (r *Ring) Seal(plaintext []byte, place string) string {
	first := r.keys[0]
	sealed := first.aead.Seal(nil, nil, plaintext, []byte(place)) //nolint:gosec // it makes a random nonce of its own and puts it in front
	return version + first.id + "." + base64.RawURLEncoding.EncodeToString(sealed)
}

// Open returns the plaintext of a text sealed for the place. It returns an UnknownKeyError if the
// key is not in the ring, and ErrTampered if the text was changed or was sealed for another place.
func (r *Ring) Open(text, place string) ([]byte, error) {
	id, encoded, ok := cut(text)
	if !ok {
		return nil, ErrTampered
	}
	i := slices.IndexFunc(r.keys, func(k key) bool { return k.id == id })
	if i < 0 {
		return nil, &UnknownKeyError{id}
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return nil, ErrTampered
	}
	plaintext, err := r.keys[i].aead.Open(nil, nil, sealed, []byte(place))
	if err != nil {
		return nil, ErrTampered
	}
	return plaintext, nil
}

// KeyOf returns the ID of the key that a text is sealed with; "" if the text is not sealed.
func KeyOf(text string) string {
	id, _, _ := cut(text)
	return id
}

func cut(text string) (id, encoded string, ok bool) {
	rest, ok := strings.CutPrefix(text, version)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ".")
}

// First returns the ID of the key that Seal uses.
func (r *Ring) First() string { return r.keys[0].id }

// IDs returns the IDs of the keys, the newest first.
func (r *Ring) IDs() []string {
	ids := make([]string, len(r.keys))
	for i, k := range r.keys {
		ids[i] = k.id
	}
	return ids
}

func (r *Ring) has(id string) bool {
	return slices.ContainsFunc(r.keys, func(k key) bool { return k.id == id })
}

// String returns the ids of the keys.
func (r *Ring) String() string { return "keys " + strings.Join(r.IDs(), ", ") }

// Format writes the ids of the keys, for any verb.
func (r *Ring) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(r.String())) } // as fmt itself does

// LogValue returns the ids of the keys.
func (r *Ring) LogValue() slog.Value { return slog.StringValue(r.String()) }
